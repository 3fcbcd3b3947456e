package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// signedBy reports whether a detached JWS, "header..signature", signs content with the secret of the token. kubeadm's
// bootstrap signer makes it with HS256 and the token's ID as key ID; nothing else is accepted, above all not the
// algorithm "none".
func signedBy(jws, content string, token Token) bool {
	parts := strings.Split(jws, ".")
	if len(parts) != 3 || parts[1] != "" {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		return false
	}
	var header struct{ Alg, Kid string }
	if json.Unmarshal(raw, &header) != nil || header.Alg != "HS256" || header.Kid != token.ID {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(token.secret))
	mac.Write([]byte(parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(content))))
	return hmac.Equal(mac.Sum(nil), signature)
}
