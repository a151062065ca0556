package main

import (
	"strings"
	"unicode"
)

// proper are names whose capitals are not the beginnings of words.
var proper = strings.NewReplacer("OAuth", "Oauth", "GitHub", "Github", "GitLab", "Gitlab", "IDs", "Ids", "PATs", "Pats", "OTPSMS", "OtpSms", "TOTP", "Totp", "OIDCIDP", "OidcIdp", "ADIDP", "AdIdp", "ESIDP", "EsIdp")

// words splits a name of the contract, in whatever style it is.
func words(name string) (all []string) {
	runes := []rune(proper.Replace(name))
	start := 0
	for i := 1; i <= len(runes); i++ {
		switch {
		case i == len(runes):
		case runes[i] == '_' || runes[i] == '-' || runes[i] == '.' || runes[i] == ' ':
		case unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) && runes[i-1] != '_':
		case unicode.IsUpper(runes[i]) && i+1 < len(runes) && unicode.IsLower(runes[i+1]) && unicode.IsUpper(runes[i-1]):
		default:
			continue
		}
		if word := strings.Trim(string(runes[start:i]), "_-. "); word != "" {
			all = append(all, strings.ToLower(word))
		}
		start = i
	}
	return all
}

func snake(name string) string { return strings.Join(words(name), "_") }

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func camel(name string) string {
	all := words(name)
	for i := range all[1:] {
		all[i+1] = title(all[i+1])
	}
	return strings.Join(all, "")
}

// initialisms are the words that Go writes in capitals.
var initialisms = map[string]string{
	"id": "ID", "ids": "IDs", "url": "URL", "urls": "URLs", "uri": "URI", "uris": "URIs", "jwt": "JWT", "otp": "OTP", "totp": "TOTP", "sms": "SMS",
	"smtp": "SMTP", "idp": "IDP", "idps": "IDPs", "oidc": "OIDC", "api": "API", "json": "JSON", "html": "HTML", "tls": "TLS", "ip": "IP", "acr": "ACR",
	"amr": "AMR", "http": "HTTP", "dns": "DNS", "oauth": "OAuth", "github": "GitHub", "gitlab": "GitLab", "ad": "AD", "es": "ES", "gcs": "GCS", "ui": "UI",
	"jwks": "JWKS", "jti": "JTI", "sid": "SID", "pat": "PAT", "pats": "PATs", "rsa": "RSA", "ec": "EC",
}

// exported is a name as Go writes it.
func exported(name string) string {
	var text strings.Builder
	for _, word := range words(name) {
		if capitals, ok := initialisms[word]; ok {
			text.WriteString(capitals)
		} else {
			text.WriteString(title(word))
		}
	}
	return text.String()
}

// nameValues gives the values of an enum names without what they have in common:
// TEXT_FILTER_METHOD_EQUALS of TextFilterMethod is EQUALS.
func nameValues(t *typ) {
	cut := len(snake(t.Name)) + 1
	for _, v := range t.Values {
		if !strings.HasPrefix(strings.ToLower(v.Wire), snake(t.Name)+"_") {
			cut = 0
		}
	}
	if cut == 0 && len(t.Values) > 1 {
		common := t.Values[0].Wire
		for _, v := range t.Values {
			for !strings.HasPrefix(v.Wire, common) {
				common = common[:len(common)-1]
			}
		}
		cut = strings.LastIndex(common, "_") + 1
	}
	for i := range t.Values {
		t.Values[i].Name = strings.ToUpper(t.Values[i].Wire[cut:])
		if first := t.Values[i].Name[0]; first >= '0' && first <= '9' {
			t.Values[i].Name = "_" + t.Values[i].Name
		}
	}
}

// wrapped breaks a text into lines after a prefix. Paragraphs stay apart.
func wrapped(prefix, text string, width int) string {
	var out strings.Builder
	if strings.TrimSpace(text) == "" {
		return ""
	}
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			out.WriteString(strings.TrimRight(prefix, " ") + "\n")
		}
		line := prefix
		for _, word := range strings.Fields(paragraph) {
			if len(line)+len(word) > width && line != prefix {
				out.WriteString(strings.TrimRight(line, " ") + "\n")
				line = prefix
			}
			line += word + " "
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}
