package report

import "regexp"

// secrets are texts that must not leave the machine, by how they look. The first group of each, if there is one, stays.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`),
	// JSON Web Tokens: three parts in base64url, the first two of which are JSON objects (RFC 7519).
	regexp.MustCompile(`eyJ[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*`),
	// Bootstrap tokens of kubeadm: six and sixteen characters (kubernetes, bootstrap-token-api).
	regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)(\b(?:password|passwd|secret|token|api[_-]?key|client-key-data|access[_-]?key)["']?\s*[:=]\s*["']?)[^\s"',;&]{4,}`),
	regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+(?:@)`),
}

// Redact replaces what looks like a secret, and returns how often it did. More is replaced than has to be.
func Redact(data []byte) (clean []byte, replaced int) {
	for _, s := range secrets {
		data = s.ReplaceAllFunc(data, func(found []byte) []byte {
			replaced++
			kept := s.FindSubmatch(found)
			out := []byte{}
			if len(kept) > 1 {
				out = append(out, kept[1]...)
			}
			out = append(out, "(removed)"...)
			if found[len(found)-1] == '@' {
				out = append(out, '@')
			}
			return out
		})
	}
	return data, replaced
}
