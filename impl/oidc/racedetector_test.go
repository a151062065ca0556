//go:build race

package oidc_test

func init() { raceDetector = true }
