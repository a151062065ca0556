// Package rs256 makes RS256 signatures: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3).
// Go's crypto/rsa does, or, in a build with the tag "openssl", OpenSSL's libcrypto, which takes
// a quarter of the time where the processor has AVX-512 IFMA (BENCHMARKS.md has numbers). The
// signatures are the same to the byte.
//
// Both keep a key in the memory of the process and nowhere else, take a time that does not
// depend on it, and check what they computed before they let it out, since a signature with a
// fault in one half betrays the key. A key is imported once and signs from then on.
//
// Verifying stays with Go in both builds: it would be a fifth quicker, of 31 µs, and would hand
// what strangers send to C. The binding is our own because it is two functions; those that
// exist load the library when the program runs, which a static program in an image without
// libraries cannot.
package rs256
