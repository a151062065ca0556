package login

// RevealHash is the one script that pages with a password may run.
var RevealHash = revealHash
