package throttle

// Sources is how many are remembered.
func Sources(t *Throttle) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sources)
}
