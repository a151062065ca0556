package wire

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// checkNumber says what is wrong with a text that is not a whole number of so many
// bits.
func checkNumber(text string, bits int, signed bool) (reason, description string) {
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(bits)) //nolint:gosec // 32 or 64
	if signed {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if len(text) <= 40 && !strings.HasPrefix(text, "+") {
		if number, ok := new(big.Int).SetString(text, 10); ok && (number.Cmp(low) < 0 || number.Cmp(high) >= 0) {
			return "OUT_OF_RANGE", fmt.Sprintf("must be from %s to %s", low, high.Sub(high, big.NewInt(1)))
		}
	}
	return "WRONG_TYPE", "must be a whole number"
}

// jsonNumber is what JSON has as a number.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// whole returns a number as JSON writes it in decimal digits alone, where it is a
// whole one: 1.0 and 10e-1 are 1. What is no number of JSON is "".
func whole(text string) string {
	if text != "" && text[0] >= '1' && text[0] <= '9' && strings.Trim(text, "0123456789") == "" {
		return text
	}
	if !jsonNumber.MatchString(text) {
		return ""
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	sign, digits := "", mantissa
	if mantissa[0] == '-' {
		sign, digits = "-", mantissa[1:]
	}
	before, after, _ := strings.Cut(digits, ".")
	shift, err := strconv.Atoi(cmp.Or(exponent, "0"))
	digits = strings.TrimRight(before+after, "0")
	zeros := len(before) + shift - len(digits) // behind the last digit that counts
	switch digits = strings.TrimLeft(digits, "0"); {
	case digits == "":
		return "0"
	case err != nil || zeros < 0 || zeros > 20:
		return text
	}
	return sign + digits + strings.Repeat("0", zeros)
}
