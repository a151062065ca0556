package provider

import (
	"context"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// batch is how many rows are read at a time.
const batch = 500

// Reseal seals the secrets of all providers anew, by the key that seals now, and returns how
// many providers that were. It may run while nodes do, and again after a failure.
func Reseal(ctx context.Context, s *store.DB, sealer secret.Sealer) (int, error) {
	mail, err := resealSMTP(ctx, s, sealer)
	if err != nil {
		return mail, err
	}
	text, err := resealSMS(ctx, s, sealer)
	return mail + text, err
}

func resealSMTP(ctx context.Context, s *store.DB, sealer secret.Sealer) (done int, err error) {
	q, after := db.New(), db.SealedSMTPProvidersParams{PageLimit: batch}
	for {
		rows, err := q.SealedSMTPProviders(ctx, s.Pool, after)
		if err != nil || len(rows) == 0 {
			return done, err
		}
		for _, row := range rows {
			after.InstanceID, after.ID = row.InstanceID, row.ID
			p := db.ResealSMTPProviderParams{
				InstanceID: row.InstanceID, ID: row.ID,
				WasPassword: row.Password, WasClientSecret: row.ClientSecret, WasSigningKey: row.SigningKey, WasOldSigningKey: row.OldSigningKey,
			}
			at := func(column string) string { return place("smtp_providers", column, row.InstanceID, row.ID) }
			sealed, err := resealAll(sealer, []old{
				{row.Password, at("password"), &p.Password}, {row.ClientSecret, at("client_secret"), &p.ClientSecret},
				{row.SigningKey, at("signing_key"), &p.SigningKey}, {row.OldSigningKey, at("signing_key"), &p.OldSigningKey},
			})
			if err != nil {
				return done, err
			}
			if !sealed {
				continue
			}
			n, err := q.ResealSMTPProvider(ctx, s.Pool, p)
			if err != nil {
				return done, err
			}
			done += int(n)
		}
	}
}

func resealSMS(ctx context.Context, s *store.DB, sealer secret.Sealer) (done int, err error) {
	q, after := db.New(), db.SealedSMSProvidersParams{PageLimit: batch}
	for {
		rows, err := q.SealedSMSProviders(ctx, s.Pool, after)
		if err != nil || len(rows) == 0 {
			return done, err
		}
		for _, row := range rows {
			after.InstanceID, after.ID = row.InstanceID, row.ID
			p := db.ResealSMSProviderParams{
				InstanceID: row.InstanceID, ID: row.ID, WasToken: row.Token, WasSigningKey: row.SigningKey, WasOldSigningKey: row.OldSigningKey,
			}
			at := func(column string) string { return place("sms_providers", column, row.InstanceID, row.ID) }
			sealed, err := resealAll(sealer, []old{
				{row.Token, at("token"), &p.Token}, {row.SigningKey, at("signing_key"), &p.SigningKey}, {row.OldSigningKey, at("signing_key"), &p.OldSigningKey},
			})
			if err != nil {
				return done, err
			}
			if !sealed {
				continue
			}
			n, err := q.ResealSMSProvider(ctx, s.Pool, p)
			if err != nil {
				return done, err
			}
			done += int(n)
		}
	}
}

// old is something sealed, where it is, and where to put it when it is sealed anew.
type old struct {
	sealed []byte
	place  string
	to     *[]byte
}

// resealAll reports whether there was anything.
func resealAll(sealer secret.Sealer, all []old) (sealed bool, err error) {
	for _, one := range all {
		if *one.to = one.sealed; len(one.sealed) == 0 {
			continue
		}
		if *one.to, err = secret.Reseal(sealer, one.sealed, one.place); err != nil {
			return false, err
		}
		sealed = true
	}
	return sealed, nil
}
