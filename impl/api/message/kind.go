package message

import "slices"

// kind is a kind of message, by the name that its words and the settings API have.
type kind struct {
	sms       bool
	variables []string // that its words can name: fields of Data
	needed    string   // the one that its text has to name, because it is of no use without; "" for none
}

// kinds are all that the product sends.
var kinds = map[string]kind{
	"verify_email":     {variables: []string{"Code", "Minutes", "Link", "Domain", "Name"}, needed: "Code"},
	"verify_phone":     {variables: []string{"Code", "Minutes", "Domain"}, needed: "Code", sms: true},
	"otp_email":        {variables: []string{"Code", "Minutes", "Domain", "Name"}, needed: "Code"},
	"otp_sms":          {variables: []string{"Code", "Minutes", "Domain"}, needed: "Code", sms: true},
	"reset_password":   {variables: []string{"Code", "Minutes", "Link", "Domain", "Name"}, needed: "Code"},
	"password_changed": {variables: []string{"Domain", "Name"}},
	"email_known":      {variables: []string{"Domain", "Name"}},
	"door":             {variables: []string{"Link", "Domain", "Name"}, needed: "Link"},
	"domain_claimed":   {variables: []string{"Username", "Domain", "Name"}, needed: "Username"},
}

func (k kind) knows(variable string) bool { return slices.Contains(k.variables, variable) }
