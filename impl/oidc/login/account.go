package login

// showAccounts shows the accounts of the browser. Without any there is nothing to
// choose.
func showAccounts(v *visit) error {
	if err := v.load(); err != nil {
		return err
	}
	if len(v.sessions) == 0 {
		return v.to(pathName)
	}
	return accountsForm(v)
}

// takeAccount goes on with the account that was chosen: what its session lacks is
// asked for first.
func takeAccount(v *visit) error {
	if err := v.load(); err != nil {
		return err
	}
	k := v.find(v.form.Get("session"))
	v.flow.Registering = false
	if k == nil { // another one, or one that is gone
		v.flow.SessionId, v.flow.LoginName, v.flow.LoginHint = "", "", ""
		return v.to(pathName)
	}
	v.flow.SessionId, v.flow.LoginName = k.ID, k.LoginName
	return v.advance()
}

// account is a line of the chooser.
type account struct {
	Session, DisplayName, LoginName string
	Initial                         string
	State                           string // what is still asked for, in words
	Focus                           bool
}

func accountsForm(v *visit) error {
	p := v.page("accounts", pathAccounts)
	if v.flow.GetRequest() == "" {
		p.Lead = v.words.get("accounts.nowhere")
	}
	now, chosen := v.Now(), false
	for i := range v.sessions {
		k := &v.sessions[i]
		one := account{Session: k.ID, DisplayName: k.DisplayName, LoginName: k.LoginName, Initial: initial(k.DisplayName)}
		if !k.complete(now) || !v.fresh(k) {
			one.State = v.words.get("accounts.again")
		}
		if k.LoginName == v.flow.GetLoginHint() {
			one.Focus, chosen = true, true
		}
		p.Accounts = append(p.Accounts, one)
	}
	if !chosen {
		p.Accounts[0].Focus = true
	}
	return v.render(p, nil)
}

// initial returns the first character of a name, to be shown as its picture.
func initial(name string) string {
	for _, one := range name {
		return string(one)
	}
	return "·"
}
