//go:build openssl

package rs256

/*
#cgo LDFLAGS: -lcrypto
#cgo noescape writ_sign
#cgo nocallback writ_sign

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#if OPENSSL_VERSION_NUMBER < 0x30000000L
#error "OpenSSL 3.0 or newer is needed"
#endif

// Errors are kept for each thread, and a goroutine may go on on another one: so each function
// returns its own, 0 when there is none.
static unsigned long writ_error(void) {
	unsigned long error = ERR_peek_last_error();
	ERR_clear_error();
	return error ? error : ERR_R_INTERNAL_ERROR;
}

static unsigned long writ_import(EVP_PKEY **key, const unsigned char *der, long length) {
	// The configuration of the machine is not read: it could load providers into a process that
	// was linked without them, and what signs is to be the same wherever the program runs.
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
	*key = d2i_AutoPrivateKey(NULL, &der, length);
	return *key != NULL && EVP_PKEY_is_a(*key, "RSA") ? 0 : writ_error();
}

static unsigned long writ_sign(EVP_PKEY *key, const unsigned char *digest, size_t digest_length, unsigned char *signature, size_t *length) {
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);
	int good = context != NULL
		&& EVP_PKEY_sign_init(context) > 0
		&& EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) > 0
		&& EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) > 0
		&& EVP_PKEY_sign(context, signature, length, digest, digest_length) > 0;
	unsigned long error = good ? 0 : writ_error();
	EVP_PKEY_CTX_free(context);
	return error;
}
*/
import "C"

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"runtime"
	"unsafe"
)

// Library names what computes.
func Library() string { return C.GoString(C.OpenSSL_version(C.OPENSSL_VERSION)) }

// PrivateKey signs. OpenSSL overwrites its copy when the key is not used any more.
type PrivateKey struct {
	key  *C.EVP_PKEY
	size int
}

// NewPrivateKey imports a key.
func NewPrivateKey(key *rsa.PrivateKey) (*PrivateKey, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	k := &PrivateKey{size: key.Size()}
	failed := C.writ_import(&k.key, first(der), C.long(len(der)))
	if k.key != nil {
		runtime.AddCleanup(k, func(key *C.EVP_PKEY) { C.EVP_PKEY_free(key) }, k.key)
	}
	if failed != 0 {
		return nil, reason(failed)
	}
	return k, nil
}

// computing has a place for each core: signing waits for nothing else, and a call of C that
// lasts has the scheduler start another thread for other goroutines.
var computing = make(chan struct{}, runtime.GOMAXPROCS(0))

// Sign returns the signature of input.
func (k *PrivateKey) Sign(input []byte) ([]byte, error) {
	digest := sha256.Sum256(input)
	signature := make([]byte, k.size)
	length := C.size_t(len(signature))
	computing <- struct{}{}
	failed := C.writ_sign(k.key, first(digest[:]), C.size_t(len(digest)), first(signature), &length)
	<-computing
	runtime.KeepAlive(k)
	if failed != 0 {
		return nil, reason(failed)
	}
	return signature[:length], nil
}

func first(bytes []byte) *C.uchar { return (*C.uchar)(unsafe.SliceData(bytes)) }

func reason(code C.ulong) error {
	text := make([]byte, 256)
	C.ERR_error_string_n(code, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)))
	return fmt.Errorf("rs256: OpenSSL: %s", C.GoString((*C.char)(unsafe.Pointer(unsafe.SliceData(text)))))
}
