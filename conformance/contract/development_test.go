package contract

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/writ-id/writ/conformance/harness"
)

// developer calls what only development has; every exchange is held to its document.
type developer struct {
	*testing.T
	url    string // of the node that makes worlds
	world  string // the ID of one
	at     string // the URL of that one, which no other test sees
	client *http.Client
}

// ask makes a request that has to be answered with a status, and reads the answer. The
// request may be wrong, the answer not.
func (d *developer) ask(method, address, body string, status int) any {
	d.Helper()
	req, err := http.NewRequestWithContext(harness.WrongOnPurpose(d.Context()), method, address, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := d.client.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		d.Fatalf("%s %s: got %d %s %v", method, address, res.StatusCode, text, err)
	}
	var answer any
	if json.Unmarshal(text, &answer) != nil {
		return string(text)
	}
	return answer
}

// has asks for JSON with some members.
func (d *developer) has(method, address, body string, status int, members ...string) map[string]any {
	d.Helper()
	answer, _ := d.ask(method, address, body, status).(map[string]any)
	for _, name := range members {
		if answer[name] == nil {
			d.Errorf("%s %s: there is no %s in %v", method, address, name, answer)
		}
	}
	return answer
}

// lists asks for a list and returns how long it is.
func (d *developer) lists(address string) int {
	d.Helper()
	answer, ok := d.ask(http.MethodGet, address, "", http.StatusOK).([]any)
	if !ok {
		d.Errorf("%s answers no list", address)
	}
	return len(answer)
}

// developmentCases are what the operations of dev.yaml do, by name.
var developmentCases = map[string]func(*developer){
	"GetDevelopmentDocument": func(d *developer) { d.has("GET", d.url+"/_dev/openapi.json", "", 200, "openapi", "paths") },
	"ListDevelopmentMessages": func(d *developer) {
		d.lists(d.at + "/_dev/messages?recipient=nobody%40example.com")
		d.lists(d.at + "/_dev/messages")
	},
	"GetClock": func(d *developer) { d.has("GET", d.at+"/_dev/clock", "", 200, "now", "offset", "frozen") },
	"MoveClock": func(d *developer) {
		if got := d.has("POST", d.at+"/_dev/clock", `{"set":"2031-01-31T12:00:00Z","frozen":true}`, 200)["now"]; got != "2031-01-31T12:00:00Z" {
			d.Errorf("it is %v", got)
		}
		if got := d.has("POST", d.at+"/_dev/clock", `{"reset":true,"frozen":false}`, 200); got["frozen"] != false {
			d.Errorf("it says %v", got)
		}
		d.ask("POST", d.at+"/_dev/clock", `{"advance":"soon"}`, 400)
	},
	"GetDatabase":        func(d *developer) { d.ask("GET", d.at+"/_dev/database", "", 200) },
	"GetCredentialsPath": func(d *developer) { d.ask("GET", d.url+"/_dev/credentials", "", 200) },
	"LoginForDevelopment": func(d *developer) {
		d.has("POST", d.at+"/_dev/login", `{"user":"alice","client":"web"}`, 200, "access_token", "id_token", "token_type", "expires_in")
		d.has("POST", d.at+"/_dev/login", `{"user":"nobody","client":"web"}`, 400, "message")
	},
	"ListFaults": func(d *developer) { d.lists(d.at + "/_dev/faults") },
	"AddFault": func(d *developer) {
		d.has("POST", d.at+"/_dev/faults", `{"route":"/oauth/v2/keys","status":503,"count":3,"retry_after":1}`, 201, "left")
		d.ask("POST", d.at+"/_dev/faults", `{"route":"/{","status":503}`, 400)
	},
	"ClearFaults": func(d *developer) {
		d.has("POST", d.at+"/_dev/faults", `{"route":"/oauth/v2/keys","drop":true}`, 201)
		d.ask("DELETE", d.at+"/_dev/faults", "", 204)
		if n := d.lists(d.at + "/_dev/faults"); n != 0 {
			d.Errorf("%d are due", n)
		}
	},
	"ListWorlds": func(d *developer) {
		if d.lists(d.url+"/_dev/worlds") == 0 {
			d.Error("there are none")
		}
		d.ask("GET", d.at+"/_dev/worlds", "", 404) // a world has none
	},
	"CreateWorld": func(d *developer) {
		made := d.has("POST", d.url+"/_dev/worlds", `{"ttl":"1m","clock":{"set":"2031-01-31T12:00:00Z"}}`, 201, "id", "issuer", "admin_token")
		d.ask("DELETE", d.url+"/_dev/worlds/"+made["id"].(string), "", 204)
		d.ask("POST", d.url+"/_dev/worlds", `{"ttl":"-1s"}`, 400)
	},
	"GetWorld": func(d *developer) {
		d.has("GET", d.url+"/_dev/worlds/"+d.world, "", 200, "issuer")
		d.ask("GET", d.url+"/_dev/worlds/none", "", 404)
	},
	"DeleteWorld": func(d *developer) {
		made := d.has("POST", d.url+"/_dev/worlds", `{"ttl":"1m"}`, 201, "id")
		d.ask("DELETE", d.url+"/_dev/worlds/"+made["id"].(string), "", 204)
		d.ask("DELETE", d.url+"/_dev/worlds/"+made["id"].(string), "", 404)
	},
	"SnapshotWorld": func(d *developer) {
		d.has("POST", d.url+"/_dev/worlds/"+d.world+"/snapshot", "", 201, "snapshot")
		d.ask("POST", d.url+"/_dev/worlds/none/snapshot", "", 404)
	},
	"RestoreWorld": func(d *developer) {
		name := d.has("POST", d.url+"/_dev/worlds/"+d.world+"/snapshot", "", 201)["snapshot"].(string)
		d.has("POST", d.url+"/_dev/worlds/"+d.world+"/restore", `{"snapshot":"`+name+`"}`, 200, "issuer")
		d.ask("POST", d.url+"/_dev/worlds/"+d.world+"/restore", `{"snapshot":"999"}`, 404)
	},
}

func TestEveryOperationOfDevelopmentKeepsItsContract(t *testing.T) {
	t.Parallel()
	if os.Getenv("WRIT_TEST_POOLER") != "" {
		t.Skip("the nodes of writ serve have none of it")
	}
	server := harness.Shared(t)
	document := server.Development(t)
	d := &developer{T: t, url: server.Issuer, client: &http.Client{Transport: document.Transport(http.DefaultTransport)}}
	made := d.has("POST", d.url+"/_dev/worlds", `{"ttl":"5m"}`, 201, "id", "issuer")
	d.world, d.at = made["id"].(string), made["issuer"].(string)
	defer func() { d.ask("DELETE", d.url+"/_dev/worlds/"+d.world, "", 204) }()

	known := map[string]bool{}
	for path, item := range document.Paths.Map() {
		for verb, operation := range item.Operations() {
			name := operation.OperationID
			known[name] = true
			t.Run(name, func(t *testing.T) {
				try := developmentCases[name]
				if try == nil {
					t.Fatalf("%s %s has no case here", verb, path)
				}
				sub := *d
				sub.T = t
				try(&sub)
			})
		}
	}
	for name := range developmentCases {
		if !known[name] {
			t.Errorf("%s is no operation of the document", name)
		}
	}
}
