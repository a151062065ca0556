package secret_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
)

// known are hashes of the same password by openssl passwd and Python's hashlib.
var known = []string{
	"$1$saltsalt$RnnG5UBrMMkGcFFQvVFXK1",
	"$5$saltsalt$z5Ht2Byadvfpv1E.jL4A3mBfes6.vzNUikIcroCu8H2",
	"$6$saltsalt$j6s6d7UIzSZvEh2n91/yzkf//.dcRR5sc16GCPfM0IhaVKK.YI45jPsKR/J20xC3j7.L6RWqNmdNfjKf7R0sE.",
	"$pbkdf2-sha256$i=29000$MDEyMzQ1Njc4OWFiY2RlZg$WESbwAFrAxbti1iLZGcYAsaqfsGUR0CbZsMH8Kxr8fg",
	"$pbkdf2$20000$MDEyMzQ1Njc4OWFiY2RlZg$h/O3ELjP5u19/K4PvVJIm2Dqn6U",
	"$pbkdf2-sha512$25000$MDEyMzQ1Njc4OWFiY2RlZg$rP3gEdLi9CCT/W1/hoZBHi7lSqnfRRGhqKybQ38idRZdN77u/isH5IfyJuADqzTm/ked3mLSVpc0Hma5oJVNMQ",
	"$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$mY/asSXRgmZYGegW3QWS+n0sRIa13xV6tdufqWXDm7w",
}

const knownPassword = "Correct horse 1"

func TestSEC278_HashesOfOtherSystemsAreVerifiedAndReplaced(t *testing.T) {
	t.Parallel()
	made, err := bcrypt.GenerateFromPassword([]byte(knownPassword), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(known, string(made), strings.Replace(string(made), "$2a$", "$2y$", 1)) {
		for password, want := range map[string]bool{knownPassword: true, knownPassword + "x": false, "": false, strings.Repeat("x", 5000): false} {
			matches, rehash, err := full.Verify(t.Context(), "", text, password, true)
			if err != nil || matches != want || rehash != want {
				t.Errorf("%s: got %v, %v, %v; want %v", text, matches, rehash, err, want)
			}
		}
	}
	if matches, rehash, err := full.Verify(t.Context(), "", full.Hash("a"), "a", true); !matches || rehash || err != nil {
		t.Errorf("a new hash: got %v, %v, %v", matches, rehash, err)
	}
	if matches, rehash, err := full.Verify(t.Context(), "", full.Hash("a"), "a", false); matches || rehash || err != nil {
		t.Errorf("the hash of somebody else: got %v, %v, %v", matches, rehash, err)
	}
	if matches, _, err := full.Verify(t.Context(), "", "", "", true); matches || err != nil {
		t.Errorf("no password: got %v, %v", matches, err)
	}
}

// TestSEC278_AHashOfFirebaseIsVerified has the vector that its open implementation is
// published with.
func TestSEC278_AHashOfFirebaseIsVerified(t *testing.T) {
	t.Parallel()
	const hash = "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==" +
		"$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="
	for password, want := range map[string]bool{"user1password": true, "user1passwort": false, "": false} {
		if matches, rehash, err := full.Verify(t.Context(), "", hash, password, true); err != nil || matches != want || rehash != want {
			t.Errorf("%q: got %v, %v, %v; want %v", password, matches, rehash, err, want)
		}
	}
	for _, wrong := range []string{
		strings.Replace(hash, "n=14", "n=15", 1), strings.Replace(hash, "r=8", "r=9", 1), strings.Replace(hash, "p=1", "p=2", 1),
		strings.Replace(hash, "v=1", "v=2", 1), strings.Replace(hash, ",sk=", ",key=", 1), strings.Replace(hash, "ss=Bw==", "ss=?", 1),
		strings.Replace(hash, "$lSrf", "$lSr", 1), strings.Replace(hash, "sk=jxsp", "sk=", 1),
	} {
		if _, err := secret.ParseHash(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestSEC278_HashesBeyondTheBoundsAreRefused(t *testing.T) {
	t.Parallel()
	const tail = "$MDEyMzQ1Njc4OWFiY2RlZg$WESbwAFrAxbti1iLZGcYAsaqfsGUR0CbZsMH8Kxr8fg"
	for _, text := range []string{
		"", "$", "plain", "{SHA}x", "$7$x", "$argon2id$v=19$m=4194304,t=1,p=1" + tail, "$argon2id$v=19$m=65536,t=1000000000,p=1" + tail,
		"$argon2id$v=19$m=262144,t=5,p=1" + tail, "$argon2id$v=19$m=8,t=1,p=2" + tail, "$argon2d$v=19$m=19456,t=2,p=1" + tail,
		"$argon2id$v=19$m=+19456,t=2,p=1" + tail, "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$YQ",
		"$2a$31$" + strings.Repeat("a", 53), "$2a$16$" + strings.Repeat("a", 53), "$2a$12$short", "$2x$12$" + strings.Repeat("a", 53), "$2a$+4$" + strings.Repeat("a", 53),
		"$scrypt$ln=25,r=8,p=1" + tail, "$scrypt$ln=20,r=64,p=16" + tail, "$scrypt$ln=63,r=8,p=1" + tail, "$scrypt$ln=0,r=8,p=1" + tail,
		"$pbkdf2-sha256$999999999" + tail, "$pbkdf2-sha256$1" + tail, "$pbkdf2-md5$29000" + tail,
		"$6$rounds=999999999$saltsalt$" + strings.Repeat("a", 86), "$6$rounds=1$saltsalt$" + strings.Repeat("a", 86), "$1$saltsaltsalt$" + strings.Repeat("a", 22),
	} {
		if _, err := secret.ParseHash(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestSEC183_WorkIsBoundedAndTheRestIsRefused(t *testing.T) {
	// Not parallel: it fills the one limit of the process.
	release := make(chan struct{})
	var running, done sync.WaitGroup
	for i := range runtime.GOMAXPROCS(0) + max(1, runtime.GOMAXPROCS(0)/3) {
		running.Add(1)
		done.Go(func() {
			// The last of the places are for others than the first has.
			if err := secret.Work(context.Background(), strconv.Itoa(i/runtime.GOMAXPROCS(0)), func() { running.Done(); <-release }); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := secret.Work(ctx, "", func() { t.Error("ran") }); err == nil {
		t.Error("there was a place beyond the limit")
	}
	refused := make(chan error, 200)
	for range cap(refused) {
		go func() { refused <- secret.Work(t.Context(), "", func() {}) }()
	}
	err := <-refused // at once: the queue is full
	if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Kind != fault.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	close(release)
	for range cap(refused) - 1 {
		if err := <-refused; err != nil && !errors.As(err, new(*fault.Error)) {
			t.Error(err)
		}
	}
	done.Wait()
}

// TestSEC278_WhatAHashCostsIsKnownFromItsParameters compares with samples of which
// each costs half of what a hash of ours does.
func TestSEC278_WhatAHashCostsIsKnownFromItsParameters(t *testing.T) {
	t.Parallel()
	const tail = "$MDEyMzQ1Njc4OWFiY2RlZg$WESbwAFrAxbti1iLZGcYAsaqfsGUR0CbZsMH8Kxr8fg"
	for text, want := range map[string]float64{
		full.Hash("a"):                                  1,
		"$argon2id$v=19$m=262144,t=1,p=1" + tail:        262144. / 2 / 19456,
		"$argon2id$v=19$m=19456,t=8,p=4" + tail:         4,
		"$2a$06$" + strings.Repeat("a", 53):             0.5,
		"$2a$10$" + strings.Repeat("a", 53):             8,
		"$2a$15$" + strings.Repeat("a", 53):             256,
		"$scrypt$ln=11,r=8,p=1" + tail:                  0.5,
		"$scrypt$ln=14,r=8,p=2" + tail:                  8,
		"$pbkdf2-sha256$i=2000" + tail:                  0.5,
		"$pbkdf2-sha512$i=210000" + tail:                52.5,
		"$6$rounds=400000$s$" + strings.Repeat("a", 86): 100,
	} {
		hash, err := secret.ParseHash(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := hash.Cost(func(string) float64 { return 0.5 }); got != want {
			t.Errorf("%s: got %g, want %g", text, got, want)
		}
		// Every scheme has a sample, which is some work, and not much.
		if got := hash.Cost(secret.Measured); got <= 0 {
			t.Errorf("%s: measured %g", text, got)
		}
	}
}

func FuzzParseHash(f *testing.F) {
	for _, text := range known {
		f.Add(text)
	}
	f.Add("$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$WESbwAFrAxbti1iLZGcYAsaqfsGUR0CbZsMH8Kxr8fg")
	f.Add("$fbscrypt$v=1,n=10,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==")
	f.Add("$2a$04$" + strings.Repeat("a", 53))
	f.Fuzz(func(t *testing.T, text string) {
		h, err := secret.ParseHash(text)
		if err != nil {
			return
		}
		start := time.Now()
		if h.Matches("no password of any of these") {
			t.Errorf("%q matches", text)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%q took %v", text, took)
		}
	})
}
