package upstream

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"github.com/writ-id/writ/impl/core/token"
)

// Microsoft Entra ID, formerly Azure AD, has an issuer for each tenant. What is
// discovered for many of them holds a place for the ID instead, which the ID token names
// as tid.
const (
	azure       = "https://login.microsoftonline.com/"
	azureSuffix = "/v2.0"
	tenantID    = "{tenantid}"
	// consumers is the tenant of personal accounts.
	consumers = "9188040d-6c67-4c5b-b112-36a304b66dad"
)

// uuid is what IDs of tenants look like.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func azureTenant(p *Provider) string {
	if p.Tenant == "" {
		return "common"
	}
	return strings.ToLower(p.Tenant)
}

func azureIssuer(p *Provider) string { return azure + azureTenant(p) + azureSuffix }

// isAzureIssuer reports whether an issuer is one of the tenants that may sign in.
func isAzureIssuer(p *Provider, named, tid string) bool {
	rest, ok := strings.CutPrefix(named, azure)
	of, ends := strings.CutSuffix(rest, azureSuffix)
	if !ok || !ends {
		return false
	}
	document := tid == ""
	if !document && of != tid || of != tenantID && !uuid.MatchString(of) {
		return false
	}
	switch tenant := azureTenant(p); {
	case tenant == "common":
		return document == (of == tenantID)
	case tenant == "organizations":
		return document == (of == tenantID) && of != consumers
	case tenant == "consumers":
		return of == consumers
	case uuid.MatchString(tenant):
		return of == tenant
	}
	// A domain of the tenant: the document, which comes by TLS, says which one that is,
	// and the ID token is compared with that.
	return of != tenantID
}

// mendAzure takes an address as verified only when Microsoft says that its domain was
// proven: tenants may write any address into their users' profiles.
func mendAzure(p *Provider, claims token.Claims, _ url.Values, who *Identity) {
	var owned any
	_ = json.Unmarshal(claims["xms_edov"], &owned)
	who.EmailVerified = who.Email != "" && (p.EmailVerified || owned == true || owned == "1" || owned == float64(1) || owned == "true")
}
