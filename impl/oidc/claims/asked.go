package claims

import (
	"encoding/json"
	"slices"

	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// Asked is what the parameter claims asks for (OpenID Connect Core, section
// 5.5).
type Asked struct {
	Names []string // standard claims, as place:name
	User  string   // who the user has to be, "" for anybody
	ACRs  []string // of which class the authentication has to be one; none: of any
}

// Read reads the parameter claims. What it says of a claim's value counts where
// the specification says so: sub, and acr when it is essential (sections 5.5.1 and
// 5.5.1.1). Other values, and essential elsewhere, do not change the answer.
func Read(text string) (asked Asked, err error) {
	if text == "" {
		return asked, nil
	}
	var places struct {
		UserInfo map[string]json.RawMessage `json:"userinfo"`
		IDToken  map[string]json.RawMessage `json:"id_token"`
	}
	bad := endpoint.InvalidRequest("claims is not an object as OpenID Connect Core 5.5 has it")
	if err := json.Unmarshal([]byte(text), &places); err != nil {
		return asked, bad
	}
	at := map[string]map[string]json.RawMessage{AtUserInfo: places.UserInfo, AtIDToken: places.IDToken}
	for _, place := range []string{AtUserInfo, AtIDToken} {
		for _, name := range Supported {
			if _, ok := at[place][name]; ok {
				asked.Names = append(asked.Names, place+name)
			}
		}
		subject, err := readWish(at[place]["sub"])
		if err != nil || asked.User != "" && subject.Value != "" && subject.Value != asked.User {
			return asked, bad
		}
		if subject.Value != "" {
			asked.User = subject.Value
		}
	}
	class, err := readWish(places.IDToken["acr"])
	if err != nil {
		return asked, bad
	}
	if class.Essential {
		asked.ACRs = class.Values
		if class.Value != "" {
			asked.ACRs = append(slices.Clone(class.Values), class.Value)
		}
	}
	return asked, nil
}

// wish is what a request says of a claim.
type wish struct {
	Essential bool     `json:"essential"`
	Value     string   `json:"value"`
	Values    []string `json:"values"`
}

func readWish(text json.RawMessage) (w wish, err error) {
	if len(text) > 0 {
		err = json.Unmarshal(text, &w)
	}
	return w, err
}
