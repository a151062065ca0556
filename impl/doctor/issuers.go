package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/store"
)

const (
	mostIssuers = 200 // more take too long, and would say the same
	atOnce      = 8
	patience    = 5 * time.Second
	expireSoon  = 14 * 24 * time.Hour
)

// issuers asks each issuer who it is: the commonest reason why a client refuses its tokens.
func (d *doctor) issuers(ctx context.Context, db *store.DB) {
	rows, err := db.Pool.Query(ctx, `SELECT d.domain FROM domains d JOIN instances i ON i.id = d.instance_id
		WHERE d.org_id IS NULL AND d.is_verified AND NOT i.blocked AND NOT EXISTS (SELECT FROM moved_instances m WHERE m.instance_id = i.id)
		ORDER BY d.is_primary DESC, d.instance_id, d.domain`)
	if d.failed("issuers", err) {
		return
	}
	hosts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if d.failed("issuers", err) {
		return
	}
	if len(hosts) == 0 {
		d.fail("issuers", "writ apply, or writ serve --seed: see writ seed print", "there is no instance with a domain")
		return
	}
	d.certificate(hosts)
	if len(hosts) > mostIssuers {
		d.warn("issuers", "", "only %d of %d domains are asked", mostIssuers, len(hosts))
		hosts = hosts[:mostIssuers]
	}
	apart := make([]doctor, len(hosts))
	var group sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, host := range hosts {
		apart[i] = doctor{Config: d.Config, group: d.group}
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			apart[i].issuer(ctx, host)
		})
	}
	group.Wait()
	for i := range apart {
		d.found = append(d.found, apart[i].found...)
	}
}

// issuer asks one.
func (d *doctor) issuer(ctx context.Context, host string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	issuer := d.Scheme + "://" + host
	if strings.Contains(host, ":") { // an IPv6 address
		issuer = d.Scheme + "://[" + host + "]"
	}
	if d.Port != "" {
		issuer += ":" + d.Port
	}
	if net.ParseIP(host) == nil {
		if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
			d.fail(issuer, "add the name to the DNS, or take the domain from the instance", "no address: %v", err)
			return
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, issuer+"/.well-known/openid-configuration", http.NoBody)
	if d.failed(issuer, err) {
		return
	}
	client := &http.Client{Transport: d.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	before := time.Now()
	res, err := client.Do(req)
	if err != nil {
		var invalid *tls.CertificateVerificationError
		do := "does the proxy, or --addr, listen there, and is --external-scheme and --external-port what clients use?"
		if errors.As(err, &invalid) {
			do = "give the proxy, or --tls-cert-file, a certificate with its chain for this name"
		}
		d.fail(issuer, do, "%v", err)
		return
	}
	defer res.Body.Close()
	took := time.Since(before)
	var told struct{ Issuer string }
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &told)
	}
	switch {
	case err != nil:
		d.fail(issuer, "is it Writ that answers there?", "%v", err)
	case res.StatusCode != http.StatusOK:
		d.fail(issuer, "does the proxy pass on the Host header?", "its discovery document answers %s", res.Status)
	case told.Issuer != issuer:
		d.fail(issuer, "set --external-scheme and --external-port to what clients use, and let the proxy pass on the Host header", "it calls itself %q: clients will refuse its tokens", told.Issuer)
	default:
		d.ok(issuer, "reachable as itself")
	}
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil && res.StatusCode == http.StatusOK {
		if ahead := date.Sub(d.Now()); ahead.Abs() > clocksDiffer+time.Second+took { // whole seconds
			d.clock(issuer, "what answers there", ahead, took+time.Second)
		}
	}
	if res.TLS != nil && len(res.TLS.PeerCertificates) > 0 {
		d.expiry(issuer, res.TLS.PeerCertificates[0])
	}
}

// expiry looks at the last day of a certificate, if it is near.
func (d *doctor) expiry(check string, leaf *x509.Certificate) {
	left := leaf.NotAfter.Sub(d.Now())
	switch {
	case left <= 0:
		d.fail(check, "renew it", "the certificate ended on %s", leaf.NotAfter.UTC().Format(time.DateOnly))
	case left < expireSoon:
		d.warn(check, "renew it", "the certificate ends on %s", leaf.NotAfter.UTC().Format(time.DateOnly))
	}
}

// certificate looks at the one that a node serves itself.
func (d *doctor) certificate(hosts []string) {
	if d.TLSCertFile == "" {
		return
	}
	chain, err := readChain(d.TLSCertFile)
	if d.failed("certificate", err) {
		return
	}
	between := x509.NewCertPool()
	for _, one := range chain[1:] {
		between.AddCert(one)
	}
	var missing []string
	for _, host := range hosts {
		if chain[0].VerifyHostname(host) != nil {
			missing = append(missing, host)
		}
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: d.Roots, Intermediates: between, CurrentTime: d.Now()})
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		d.warn("certificate", "add the chain to the file, or have clients trust your own authority", "%s: no authority that this machine trusts has signed it", d.TLSCertFile)
	case err != nil:
		d.fail("certificate", "renew it", "%s: %v", d.TLSCertFile, err)
	case len(missing) == len(hosts):
		d.fail("certificate", "order one for these names", "%s is for none of the domains, such as %s", d.TLSCertFile, missing[0])
	case len(missing) > 0:
		d.warn("certificate", "order one for them too, or let a proxy end TLS for them", "%s is not for %d of %d domains, such as %s", d.TLSCertFile, len(missing), len(hosts), missing[0])
	default:
		d.ok("certificate", "%s is for all domains and ends on %s", d.TLSCertFile, chain[0].NotAfter.UTC().Format(time.DateOnly))
	}
	d.expiry("certificate", chain[0])
}

func readChain(path string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for _, block := range pemBlocks(text) {
		one, err := x509.ParseCertificate(block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		chain = append(chain, one)
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return chain, nil
}

func pemBlocks(text []byte) (all [][]byte) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if block.Type == "CERTIFICATE" {
			all = append(all, block.Bytes)
		}
	}
}
