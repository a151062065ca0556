package user

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
)

// keyFile is what a service gets to prove its identity with.
type keyFile struct {
	Type           string `json:"type"`
	KeyID          string `json:"keyId"`
	Key            string `json:"key"`
	ExpirationDate string `json:"expirationDate,omitempty"`
	UserID         string `json:"userId"`
}

// CreateMachineKey gives a service user a key.
func (s *Service) CreateMachineKey(ctx context.Context, req *userv3.CreateMachineKeyRequest) (*userv3.CreateMachineKeyResponse, error) {
	if err := s.inFuture(req.GetKey().GetExpirationDate(), "key.expirationDate"); err != nil {
		return nil, err
	}
	// Asked before making a pair, which takes time, and again below.
	if err := s.DB.InTx(ctx, func(tx pgx.Tx) error { _, err := s.lockService(ctx, tx, req.GetUserId()); return err }); err != nil {
		return nil, err
	}
	public, private, err := keyPair(ctx, req.GetKey())
	if err != nil {
		return nil, err
	}
	key := &db.MachineKey{ID: s.NewID(), UserID: req.GetUserId()}
	s.keys.Assign(key, req.GetKey())
	key.PublicKey = public
	var details *object.Details
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.lockService(ctx, tx, req.GetUserId())
		if err != nil {
			return err
		}
		key.OrgID = user.OrgID
		details, err = s.keys.CreateIn(ctx, tx, key, &eventv1.MachineKeyAdded{})
		return err
	})
	if err != nil {
		return nil, err
	}
	response := &userv3.CreateMachineKeyResponse{Details: details, KeyId: key.ID}
	if private != "" {
		file := keyFile{Type: "serviceaccount", KeyID: key.ID, Key: private, UserID: key.UserID}
		if key.ExpirationDate != nil {
			file.ExpirationDate = key.ExpirationDate.UTC().Format(time.RFC3339)
		}
		response.KeyDetails, err = json.Marshal(file)
	}
	return response, err
}

// keyPair returns the public key of a request in PEM, or a new pair.
func keyPair(ctx context.Context, key *userv3.MachineKey) (public, private string, err error) {
	if key.PublicKey != nil {
		public, err = publicKey(key.GetPublicKey())
		return public, "", err
	}
	var signer crypto.Signer
	var block pem.Block
	var failed error
	err = secret.Work(ctx, func() { // finding primes is work like hashing
		if key.GetType() == userv3.MachineKeyType_MACHINE_KEY_TYPE_EC_P256 {
			if signer, failed = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); failed == nil {
				block.Type = "PRIVATE KEY"
				block.Bytes, failed = x509.MarshalPKCS8PrivateKey(signer)
			}
			return
		}
		var made *rsa.PrivateKey
		if made, failed = rsa.GenerateKey(rand.Reader, 2048); failed == nil {
			signer, block.Type, block.Bytes = made, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(made)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return "", "", err
	}
	public, err = encode(signer.Public())
	return public, string(pem.EncodeToMemory(&block)), err
}

func encode(public any) (string, error) {
	bytes, err := x509.MarshalPKIXPublicKey(public)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: bytes})), err
}

// publicKey reads an uploaded key and returns it in the form in which all are
// stored. What is not exactly one public key is refused: nobody should get used
// to uploading private ones.
func publicKey(text string) (string, error) {
	const field = "key.publicKey"
	block, rest := pem.Decode([]byte(text))
	if block == nil || strings.TrimSpace(string(rest)) != "" || !strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN") {
		return "", fault.Invalid("INVALID_KEY", field, "must be one public key in PEM")
	}
	var public any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return "", fault.Invalid("INVALID_KEY", field, "must be a PUBLIC KEY, not a %s", block.Type)
	}
	if err != nil {
		return "", fault.Invalid("INVALID_KEY", field, "is not readable as a public key").Because(err)
	}
	good := false
	switch key := public.(type) {
	case *rsa.PublicKey:
		good = key.N.BitLen() >= 2048 && key.N.BitLen() <= 8192 && key.N.Bit(0) == 1 && key.E >= 65537 && key.E%2 == 1
	case *ecdsa.PublicKey:
		good = key.Curve == elliptic.P256() || key.Curve == elliptic.P384() || key.Curve == elliptic.P521()
	case ed25519.PublicKey:
		good = true
	}
	if !good {
		return "", fault.Invalid("WEAK_KEY", field, "must be RSA of 2048 to 8192 bits, EC on P-256, P-384 or P-521, or Ed25519")
	}
	return encode(public)
}

// DeleteMachineKey takes a key from a service user.
func (s *Service) DeleteMachineKey(ctx context.Context, req *userv3.DeleteMachineKeyRequest) (*userv3.DeleteMachineKeyResponse, error) {
	details, err := s.keys.Delete(ctx, req.GetId(), &eventv1.MachineKeyRemoved{}, nil, ofUserID(req.GetUserId()))
	return &userv3.DeleteMachineKeyResponse{Details: details}, err
}

// SearchMachineKeys finds the keys that meet all filters.
func (s *Service) SearchMachineKeys(ctx context.Context, req *userv3.SearchMachineKeysRequest) (*userv3.SearchMachineKeysResponse, error) {
	if _, err := s.users.Get(ctx, req.GetUserId()); err != nil {
		return nil, err
	}
	rows, details, err := s.keys.Search(ctx, req, ofUserID(req.GetUserId()))
	return &userv3.SearchMachineKeysResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(s.keys, rows, func(*db.MachineKey) *userv3.GetMachineKey { return &userv3.GetMachineKey{} }),
	}, err
}
