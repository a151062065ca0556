package secret

import (
	"testing"
	"time"
)

// The vectors of RFC 6238, appendix B, cut to six digits.
func TestTOTPIsThatOfRFC6238(t *testing.T) {
	t.Parallel()
	key := []byte("12345678901234567890")
	for at, want := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		if got := TOTP(key, time.Unix(at, 0)); got != want {
			t.Errorf("at %d: got %s, want %s", at, got, want)
		}
	}
}

func TestSEC178_AClockMayBeOneStepOff(t *testing.T) {
	t.Parallel()
	key, now := NewTOTP(), time.Unix(1_800_000_000, 0)
	for off, want := range map[time.Duration]bool{-60: false, -30: true, 0: true, 30: true, 60: false} {
		if _, ok := VerifyTOTP(key, TOTP(key, now.Add(off*time.Second)), now); ok != want {
			t.Errorf("%d s off: got %v, want %v", off, ok, want)
		}
	}
}

func TestSEC310_WhatIsSealedOpensOnlyInItsPlace(t *testing.T) {
	t.Parallel()
	s, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := s.Seal([]byte("x"), "a")
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := s.Open(sealed, "a"); err != nil || string(plain) != "x" {
		t.Errorf("got %q, %v", plain, err)
	}
	if _, err := s.Open(sealed, "b"); err == nil {
		t.Error("it opens in another place")
	}
	other, _ := NewMasterKey()
	if _, err := other.Open(sealed, "a"); err == nil {
		t.Error("it opens with another key")
	}
	if _, err := ReadMasterKey("c2hvcnQ="); err == nil {
		t.Error("what is no key is taken")
	}
}

func TestCodesHaveTheirDigits(t *testing.T) {
	t.Parallel()
	code := NewCode(8)
	salt, hash := HashCode(code)
	if len(code) != 8 || !VerifyCode(salt, hash, code) || VerifyCode(salt, hash, code+"0") {
		t.Errorf("%q does not work", code)
	}
}
