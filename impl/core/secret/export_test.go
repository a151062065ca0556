package secret

// Dear ends what Cheap began.
func Dear() { cheap.Store(false) }
