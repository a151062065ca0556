//go:build race

package oauth_test

func init() { raceDetector = true }
