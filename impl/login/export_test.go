package login

// Forget drops what the pages remember of settings, as time does.
func (p *Pages) Forget() { p.languages.Drop() }
