package oauth

import (
	"encoding/json"
	"slices"
)

// askedClaims is what the parameter claims asks for (OpenID Connect Core, section
// 5.5).
type askedClaims struct {
	names []string // standard claims, as place:name
	user  string   // who the user has to be, "" for anybody
	acrs  []string // of which class the authentication has to be one; none: of any
}

// readClaims reads the parameter claims. What it says of a claim's value counts where
// the specification says so: sub, and acr when it is essential (sections 5.5.1 and
// 5.5.1.1). Other values, and essential elsewhere, do not change the answer.
func readClaims(text string) (asked askedClaims, err error) {
	if text == "" {
		return asked, nil
	}
	var places struct {
		UserInfo map[string]json.RawMessage `json:"userinfo"`
		IDToken  map[string]json.RawMessage `json:"id_token"`
	}
	bad := invalidRequest("claims is not an object as OpenID Connect Core 5.5 has it")
	if err := json.Unmarshal([]byte(text), &places); err != nil {
		return asked, bad
	}
	at := map[string]map[string]json.RawMessage{placeUserinfo: places.UserInfo, placeIDToken: places.IDToken}
	for _, place := range []string{placeUserinfo, placeIDToken} {
		for _, name := range standardClaims {
			if _, ok := at[place][name]; ok {
				asked.names = append(asked.names, place+name)
			}
		}
		subject, err := readWish(at[place]["sub"])
		if err != nil || asked.user != "" && subject.Value != "" && subject.Value != asked.user {
			return asked, bad
		}
		if subject.Value != "" {
			asked.user = subject.Value
		}
	}
	class, err := readWish(places.IDToken["acr"])
	if err != nil {
		return asked, bad
	}
	if class.Essential {
		asked.acrs = class.Values
		if class.Value != "" {
			asked.acrs = append(slices.Clone(class.Values), class.Value)
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
