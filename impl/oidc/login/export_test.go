package login

// Forget drops what the pages remember of settings, as time does.
func (p *Pages) Forget() { p.languages.Drop() }

// RevealHash is the one script that pages with a password may run.
var RevealHash = revealHash
