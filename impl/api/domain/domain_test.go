package domain_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	domains = "/resources/v3alpha/domains"
	orgs    = "/resources/v3alpha/organizations"
	users   = "/resources/v3alpha/users"
)

// internet is what the owners of domains publish: TXT records, and files by URL.
// Every name is at 127.0.0.1.
type internet struct {
	mu    sync.Mutex
	txt   map[string][]string
	files map[string]string
}

func (n *internet) publish(name string, records ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.txt[name] = records
}

func (n *internet) host(url, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.files[url] = text
}

// newCluster starts nodes that see a new internet.
func newCluster(t *testing.T, nodes int) (*servertest.Cluster, *internet) {
	t.Helper()
	n := &internet{txt: map[string][]string{}, files: map[string]string{}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		text, found := n.files["http://"+r.Host+r.URL.Path]
		n.mu.Unlock()
		if !found {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(web.Close)
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	resolver := n.serveDNS(t)
	return servertest.New(t, nodes, func(c *server.Config) {
		c.Outgoing = outgoing.Config{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: resolver, Ports: map[string]string{"80": port},
		}
	}), n
}

func (n *internet) serveDNS(t *testing.T) string {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var query dnsmessage.Message
			if query.Unpack(buffer[:size]) != nil || len(query.Questions) != 1 {
				continue
			}
			_, _ = conn.WriteTo(n.answer(&query), from)
		}
	}()
	return conn.LocalAddr().String()
}

func (n *internet) answer(query *dnsmessage.Message) []byte {
	asked := query.Questions[0]
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true}, Questions: query.Questions}
	header := dnsmessage.ResourceHeader{Name: asked.Name, Type: asked.Type, Class: dnsmessage.ClassINET}
	n.mu.Lock()
	records := n.txt[strings.TrimSuffix(asked.Name.String(), ".")]
	n.mu.Unlock()
	switch {
	case asked.Type == dnsmessage.TypeA:
		reply.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
	case asked.Type == dnsmessage.TypeTXT && records == nil:
		reply.RCode = dnsmessage.RCodeNameError
	case asked.Type == dnsmessage.TypeTXT:
		for _, record := range records {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.TXTResource{TXT: []string{record}}})
		}
	}
	packed, _ := reply.Pack()
	return packed
}

// claim claims a domain and returns its ID, token and the place of its proof.
func claim(c *servertest.Cluster, user, query, domain, how string) (id, token, location string) {
	c.Helper()
	id = c.Create(user, domains+query, fmt.Sprintf(`{"domain":%q,"validationType":"VALIDATION_TYPE_%s"}`, domain, how))
	got := c.Must(user, "GET", domains+"/"+id, "").Object(c.T, "domain")
	if got["isVerified"] != false || got["isPrimary"] != false {
		c.Errorf("a claim counts: %v", got)
	}
	return id, got["validationToken"].(string), got["validationLocation"].(string)
}

func TestSEC222_AClaimCountsForNothingUntilItIsProven(t *testing.T) {
	t.Parallel()
	c, internet := newCluster(t, 1)
	status := func(host, user, path string) int { return c.Call(0, host, user, "GET", path, "").Status }
	// A domain of an instance does not find it.
	id, token, location := claim(c, "owner", "", "login.acme.example", "DNS")
	if got := status("login.acme.example", "owner", domains+"/"+id); got != 404 {
		t.Errorf("an unproven host: got %d", got)
	}
	internet.publish(location, token)
	c.Must("owner", "POST", domains+"/"+id+"/_validate", "")
	if got := status("login.acme.example", "owner", domains+"/"+id); got != 200 {
		t.Errorf("a proven host: got %d", got)
	}
	// A domain of an organization does not name it.
	id, token, location = claim(c, "second", "?ctx.orgId="+c.Org("A2"), "acme.example", "DNS")
	named := func() int {
		return c.Do("owner", "POST", "/resources/v3alpha/users/_search?ctx.orgDomain=acme.example", "[]").Status
	}
	if got := named(); got != 404 {
		t.Errorf("an unproven ctx.orgDomain: got %d", got)
	}
	c.Refused("second", "POST", domains+"/"+id+"/_set_as_primary", "", 400, "DOMAIN_NOT_VERIFIED")
	if got := c.Must("owner", "POST", orgs+"/_search", `[{"domain":{"text":"acme.example","method":"TEXT_FILTER_METHOD_EQUALS"}}]`); !strings.Contains(got.Body, `"totalResult":"0"`) {
		t.Errorf("an organization is found by what it did not prove: %s", got.Body)
	}
	internet.publish(location, token)
	c.Must("second", "POST", domains+"/"+id+"/_validate", "")
	if got := named(); got != 200 {
		t.Errorf("a proven ctx.orgDomain: got %d", got)
	}
	c.Must("second", "POST", domains+"/"+id+"/_validate", "") // again
	if got := c.Events(id); got != "domain.added domain.verified" {
		t.Errorf("events %s", got)
	}
	proven := c.Must("second", "GET", domains+"/"+id, "").Object(t, "domain")
	if proven["validationToken"] != "" || proven["validationLocation"] != "" {
		t.Errorf("the token is still shown: %v", proven)
	}
}

func TestTheSystemNeedNotProveItsClaims(t *testing.T) {
	t.Parallel()
	c, _ := newCluster(t, 1)
	id := c.Create("system", domains+"?ctx.instanceId="+c.Instance("b"), `{"domain":"also-b.example"}`)
	if got := c.Call(0, "also-b.example", "bob", "GET", domains+"/"+id, ""); got.Status != 200 {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	c.Refused("system", "POST", domains+"?ctx.instanceId="+c.Instance("a"), `{"domain":"also-b.example"}`, 409, "DOMAIN_TAKEN")
	c.Refused("owner", "POST", domains+"?ctx.instanceId="+c.Instance("b"), `{"domain":"x.example"}`, 404, "CONTEXT_NOT_FOUND")
	for _, bad := range []string{"", "-a.example", "a..example", "A.example", "a.example.", "a_b.example", "a.example/x", "a.example:80", strings.Repeat("a", 64) + ".example"} {
		if got := c.Do("system", "POST", domains, fmt.Sprintf(`{"domain":%q}`, bad)); got.Status != 400 {
			t.Errorf("%q: got %d", bad, got.Status)
		}
	}
}

func TestAProofIsTheTokenAtItsPlace(t *testing.T) {
	t.Parallel()
	c, internet := newCluster(t, 1)
	validate := func(id string, want int) {
		t.Helper()
		got := c.Do("second", "POST", domains+"/"+id+"/_validate", "")
		if got.Status != want || want == 400 && !strings.Contains(got.Body, "DOMAIN_NOT_PROVEN") {
			t.Errorf("got %d %s, want %d", got.Status, got.Body, want)
		}
		if strings.Contains(got.Body, "127.0.0.1") { // SEC-259
			t.Errorf("the answer says where it looked: %s", got.Body)
		}
	}
	in := "?ctx.orgId=" + c.Org("A2")
	id, token, location := claim(c, "second", in, "dns.example", "DNS")
	validate(id, 400) // no record
	internet.publish("dns.example", token)
	validate(id, 400) // at the wrong name
	for _, wrong := range []string{"", "x" + token, token + " ", strings.ToUpper(token), "writ=" + token} {
		internet.publish(location, wrong)
		validate(id, 400)
	}
	internet.publish(location, "v=spf1 -all", token)
	validate(id, 200)

	id, token, location = claim(c, "second", in, "http.example", "HTTP")
	validate(id, 400) // no file
	for _, wrong := range []string{"", "<html>" + token, token + token, token[:31]} {
		internet.host(location, wrong)
		validate(id, 400)
	}
	internet.publish("_writ-challenge.http.example", token) // it said HTTP
	validate(id, 400)
	internet.host(location, token+"\n")
	validate(id, 200)

	// Another way of proving gives another token.
	id, token, _ = claim(c, "second", in, "both.example", "DNS")
	c.Must("second", "PATCH", domains+"/"+id, `{"validationType":"VALIDATION_TYPE_HTTP"}`)
	if now := c.Must("second", "GET", domains+"/"+id, "").Object(t, "domain")["validationToken"]; now == token {
		t.Error("the token stayed")
	}
	internet.publish("_writ-challenge.both.example", token)
	validate(id, 400)
	// Others cannot prove, change or see it.
	for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/_validate"}, {"POST", "/_set_as_primary"}} {
		c.Refused("orgowner", call[0], domains+"/"+id+call[1], "", 404, "NOT_FOUND")
		c.Refused("bob", call[0], domains+"/"+id+call[1], "", 404, "NOT_FOUND")
	}
}

func TestSEC253_ARedirectIsNoProof(t *testing.T) {
	t.Parallel()
	hits := make(chan string, 10)
	var token string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits <- r.URL.Path
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, token)
	}))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	n := &internet{txt: map[string][]string{}}
	resolver := n.serveDNS(t)
	c := servertest.New(t, 1, func(c *server.Config) {
		c.Outgoing = outgoing.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Resolver: resolver, Ports: map[string]string{"80": port}}
	})
	var id string
	id, token, _ = claim(c, "second", "?ctx.orgId="+c.Org("A2"), "r.example", "HTTP")
	c.Refused("second", "POST", domains+"/"+id+"/_validate", "", 400, "DOMAIN_NOT_PROVEN")
	if len(hits) != 1 {
		t.Errorf("%d requests, want one", len(hits))
	}
}

func TestREL023_OneOfTwoOrganizationsProvesADomain(t *testing.T) {
	t.Parallel()
	c, internet := newCluster(t, 2)
	for round := range 8 {
		domain := fmt.Sprintf("race%d.example", round)
		var tokens, ids [2]string
		var location string
		for i, caller := range []string{"orgowner", "second"} {
			ids[i], tokens[i], location = claim(c, caller, "?ctx.orgId="+c.Org([]string{"A", "A2"}[i]), domain, "DNS")
		}
		internet.publish(location, tokens[0], tokens[1])
		var statuses [2]int
		var both sync.WaitGroup
		for i, caller := range []string{"orgowner", "second"} {
			both.Go(func() {
				got := c.Call(i, "a.example", caller, "POST", domains+"/"+ids[i]+"/_validate", "")
				statuses[i] = got.Status
				if got.Status != 200 {
					c.IsRefused(got, domain, 409, "DOMAIN_TAKEN")
				}
			})
		}
		both.Wait()
		if statuses[0]+statuses[1] != 200+409 {
			t.Fatalf("round %d: got %v, want that one wins", round, statuses)
		}
		loser := map[bool]string{true: "orgowner", false: "second"}[statuses[0] == 409]
		lost := ids[map[bool]int{true: 0, false: 1}[statuses[0] == 409]]
		c.Refused(loser, "POST", domains+"/"+lost+"/_validate", "", 409, "DOMAIN_TAKEN")
		if got := c.Must(loser, "GET", domains+"/"+lost, "").Object(t, "domain"); got["isVerified"] != false || got["validationToken"] == "" {
			t.Errorf("the claim that lost: %v", got)
		}
	}
}

func TestAPrimaryDomainIsOneAndStays(t *testing.T) {
	t.Parallel()
	c, internet := newCluster(t, 2)
	org := c.Org("A2")
	was := c.Value("SELECT id FROM domains WHERE org_id = $1", org)
	c.Refused("second", "DELETE", domains+"/"+was, "", 400, "PRIMARY_DOMAIN")
	user := c.Create("second", users+"?ctx.orgId="+org, `{"username":"eve","human":{}}`)
	login := func() any {
		return c.Must("second", "GET", users+"/"+user, "").Object(t, "user")["loginName"]
	}
	if got := login(); got != "eve@a2.a.example" {
		t.Errorf("got %v", got)
	}
	var ids []string
	for i := range 4 {
		id, token, location := claim(c, "second", "?ctx.orgId="+org, fmt.Sprintf("p%d.example", i), "DNS")
		internet.publish(location, token)
		c.Must("second", "POST", domains+"/"+id+"/_validate", "")
		ids = append(ids, id)
	}
	c.Must("second", "POST", domains+"/"+ids[0]+"/_set_as_primary", "")
	if got := login(); got != "eve@p0.example" {
		t.Errorf("the login name does not follow: %v", got)
	}
	c.Must("second", "POST", domains+"/"+ids[0]+"/_set_as_primary", "") // it is
	c.Must("second", "DELETE", domains+"/"+was, "")
	c.Refused("second", "DELETE", domains+"/"+ids[0], "", 400, "PRIMARY_DOMAIN")
	if got := c.Events(ids[0]); got != "domain.added domain.verified domain.primary.set" {
		t.Errorf("events %s", got)
	}
	// All at once, on two nodes: each succeeds, the last one counts.
	for range 5 {
		var calls sync.WaitGroup
		for i, id := range ids {
			calls.Go(func() {
				if got := c.Call(i%2, "a.example", "second", "POST", domains+"/"+id+"/_set_as_primary", ""); got.Status != 200 {
					t.Errorf("got %d %s", got.Status, got.Body)
				}
			})
		}
		calls.Wait()
		if got := c.Value("SELECT count(*)::text FROM domains WHERE org_id = $1 AND is_primary", org); got != "1" {
			t.Fatalf("%s primary domains", got)
		}
	}
	// That of the instance too.
	host := c.Value("SELECT id FROM domains WHERE domain = 'a.example'")
	c.Refused("owner", "DELETE", domains+"/"+host, "", 400, "PRIMARY_DOMAIN")
}

// TestSEC222_AProofRenamesUsersOfOthers proves a domain that names of users of
// other organizations end in.
func TestSEC222_AProofRenamesUsersOfOthers(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"by proof", "by the system"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, internet := newCluster(t, 1)
			// Names like these are of before they were refused (SEC-298), or imported.
			create := func(org, name string) string {
				id := c.Create("owner", users+"?ctx.orgId="+c.Org(org), fmt.Sprintf(`{"username":%q,"human":{}}`, strings.ReplaceAll(name, "@", "-at-")))
				c.Value("UPDATE users SET username = $2, username_folded = lower($2) WHERE id = $1 RETURNING id", id, name)
				return id
			}
			clash, upper := create("A", "ceo@acme.example"), create("A", "CFO@ACME.example")
			c.Value("UPDATE users SET email = 'ceo@mail.example', is_email_verified = true WHERE id = $1 RETURNING id", clash)
			c.Value("UPDATE users SET email = 'cfo@mail.example' WHERE id = $1 RETURNING id", upper)
			others := map[string]string{
				create("A2", "own@acme.example"):  "own@acme.example", // of the organization that proves it
				create("A", "x@sub.acme.example"): "x@sub.acme.example", create("A", "x@notacme.example"): "x@notacme.example",
				create("A", "acme.example"): "acme.example", create("A", "ceo@acme.example.org"): "ceo@acme.example.org", create("A", "x@acmeXexample"): "x@acmeXexample",
			}
			elsewhere := c.Create("bob", users, `{"username":"ceo","human":{}}`)
			c.Value("UPDATE users SET username = 'ceo@acme.example', username_folded = 'ceo@acme.example' WHERE id = $1 RETURNING id", elsewhere)
			others[elsewhere] = "ceo@acme.example"
			if how == "by proof" {
				id, token, location := claim(c, "second", "?ctx.orgId="+c.Org("A2"), "acme.example", "DNS")
				c.Refused("second", "POST", domains+"/"+id+"/_validate", "", 400, "DOMAIN_NOT_PROVEN")
				if got := c.Value("SELECT username FROM users WHERE id = $1", clash); got != "ceo@acme.example" {
					t.Errorf("a claim renamed a user: %s", got)
				}
				internet.publish(location, token)
				c.Must("second", "POST", domains+"/"+id+"/_validate", "")
			} else {
				c.Create("system", domains+"?ctx.orgId="+c.Org("A2"), `{"domain":"acme.example"}`)
			}
			for _, id := range []string{clash, upper} {
				want := id + "@temporary.a.example"
				user := c.Must("owner", "GET", users+"/"+id, "").Object(t, "user")
				if user["username"] != want {
					t.Errorf("got %v, want %s", user["username"], want)
				}
				if got := c.Events(id); got != "user.human.added user.domain.claimed" {
					t.Errorf("events %s", got)
				}
				if sequence := fmt.Sprint(user["details"].(map[string]any)["sequence"]); sequence != c.Value("SELECT max(sequence)::text FROM events WHERE aggregate_id = $1", id) {
					t.Errorf("the sequence %s is not that of the event", sequence)
				}
			}
			if got := c.Value("SELECT string_agg(template || ' ' || recipient, ', ') FROM messages"); got != "domain_claimed ceo@mail.example" {
				t.Errorf("who was renamed gets %s", got)
			}
			for id, want := range others {
				if got := c.Value("SELECT username FROM users WHERE id = $1", id); got != want {
					t.Errorf("%s is called %s now", want, got)
				}
				if got := c.Events(id); got != "user.human.added" {
					t.Errorf("%s: events %s", want, got)
				}
			}
		})
	}
}
