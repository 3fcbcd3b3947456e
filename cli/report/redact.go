package report

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// secretName matches the end of the name of a setting whose value is a secret: of a variable, a key of JSON or YAML, a
// flag, a header. What may follow says in which form the value is. Names that go on with something else, such as
// tokenFile or secretName, say where a secret is and are none.
const secretName = `(?:[A-Za-z0-9_.\-]*?(?:password|passwd|passphrase|passcode|pwd|secret|token|credential|credentials|psk|` +
	`(?:api|access|account|admin|app|auth|client|consumer|decryption|encryption|deploy|host|hmac|license|master|primary|secondary|private|` +
	`secret|shared|shared[_.\-]?access|signing|ssh|storage|subscription|validation|certificate|function|user|machine)[_.\-]?key(?:[_.\-]?base)?|` +
	`key[_.\-]?material|connection[_.\-]?string|conn[_.\-]?str|dockerconfigjson|dockercfg|client[_.\-]key[_.\-]data|webhook[_.\-]?url|session[_.\-]?id|` +
	`sas[_.\-]?url|signature|csrf|xsrf|otp|pin[_.\-]?code|auth[_.\-]?key|cookie)|(?:[A-Za-z0-9_.\-]*[_.\-])?(?:pass|pw|sas|key64|mnemonic)|_auth|_authtoken)` +
	`(?:[_.\-]?(?:[0-9]{1,3}|value|text|plain|raw|data|base64|b64|hash|old|new|prod|production|dev|test|staging))?`

// rule is one form in which secrets appear. Of a match what its group v matches is replaced; without such a group all
// is.
type rule struct {
	form string
	re   *regexp.Regexp
	// secret reports whether what was found is one; nil: it is.
	secret func(found string) bool
}

func form(name, pattern string) rule { return rule{form: name, re: regexp.MustCompile(pattern)} }

// named makes a rule for a setting, whose value counts unless it says that there is none.
func named(name, pattern string) rule {
	return rule{form: name, re: regexp.MustCompile(strings.ReplaceAll(pattern, "NAME", secretName)), secret: isValue}
}

// noValue are values of settings that are no secrets.
var noValue = []string{"", "true", "false", "null", "nil", "<nil>", "none", "yes", "no", "{}", "[]", "{", "[", "|", ">",
	"|-", ">-", "(removed)"}

func isValue(found string) bool {
	return !slices.Contains(noValue, strings.ToLower(strings.Trim(found, `"' `)))
}

// isNoWord reports whether a text is other than a word of a sentence.
func isNoWord(found string) bool {
	return len(found) >= 20 || strings.ContainsAny(found, "0123456789+/=_~") || strings.ToLower(found[1:]) != found[1:]
}

// rules are the forms that are found by how they look. Those come first that span lines.
var rules = slices.Concat([]rule{
	form("private key",
		`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`),
	// A log may begin or end within one.
	form("end of a private key",
		`(?s)\A(?P<v>[A-Za-z0-9+/=\s:,\\-]{16,}?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`),
	form("begin of a private key",
		`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?P<v>[A-Za-z0-9+/=\s:,\\-]+)\z`),
	{"private key in base64", regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/_-]{16,}={0,2}`), hidesKey},
}, formats)

// hint is in every line in which one of settings can begin. It is quick, and most lines of a log have none.
var hint = regexp.MustCompile(
	`(?i)pass|pw|secret|token|credential|psk|key|conn|docker|hook|session|sas|signature|[cx]srf|otp|pin|cookie|mnemonic|auth|login|bearer|basic|negotiate|://|sig=|code=`)

// settings are values by their names.
var settings = []rule{
	named("variable of a pod in JSON", `(?i)"name"\s*:\s*"NAME"\s*,\s*"value"\s*:\s*"(?P<v>(?:[^"\\]|\\.)*)"`),
	named("variable of a pod in YAML", `(?im)\bname:[ \t]*["']?NAME["']?[ \t]*\r?\n[ \t]*value:[ \t]*(?P<v>[^\r\n]+)`),
	named("JSON", `(?i)"NAME"\s*:\s*"(?P<v>(?:[^"\\]|\\.)*)"`),
	named("JSON in JSON", `(?i)\\"NAME\\"\s*:\s*\\"(?P<v>.*?)\\"`),
	named("number in JSON", `(?i)"NAME"\s*:\s*(?P<v>[0-9.]+)`),
	named("line of YAML", `(?im)^[ \t]*(?:-[ \t]+)?["']?NAME["']?:[ \t]+(?P<v>[^\r\n]+)`),
	named("quoted", `(?i)\bNAME["']?\s*[:=]\s*(?:"(?P<v>(?:[^"\\\n]|\\.)*)")`),
	named("single quotes", `(?i)\bNAME["']?\s*[:=]\s*'(?P<v>[^'\n]*)'`),
	named("setting", `(?i)\bNAME["']?\s*[:=]\s*(?P<v>[^\s"',;&<>]+)`),
	named("flag", `(?i)(?:^|[\s"'])--?NAME(?:["'],?)?[ \t]+["']?(?P<v>[^\s"',-][^\s"',]*)`),
	named("command that sets",
		`(?i)\b(?:setx|env|arg|set-item|config set)[ \t]+(?:/m[ \t]+|env:)?NAME[ \t]+["']?(?P<v>[^\s"'=]+)`),
	named("XML element", `(?is)<NAME>\s*(?P<v>[^<]+?)\s*</`),
	named("XML attributes", `(?i)\b(?:key|name)\s*=\s*"NAME"\s+value\s*=\s*"(?P<v>[^"]*)"`),
	named("login", `(?i)\blogin\s+\S+\s+password\s+(?P<v>\S+)`),
	form("login of a registry", `(?i)"(?:auth|identitytoken|registrytoken)"\s*:\s*"(?P<v>[A-Za-z0-9+/=._~-]{8,})"`),
	form("login of a registry in YAML", `(?im)^[ \t]*auth:[ \t]+["']?(?P<v>[A-Za-z0-9+/]{8,}={0,2})["']?[ \t]*$`),
	{"authorization", regexp.MustCompile(`(?i)\b(?:bearer|basic|negotiate)\s+(?P<v>[A-Za-z0-9._~+/-]{8,}=*)`),
		isNoWord},
	form("header",
		`(?im)\b(?:authorization|proxy-authorization|cookie|set-cookie)["']?\s*[:=]\s*\[?["']?(?P<v>[^\r\n"'\]]+)`),
	form("password in an address", `\b[a-z][a-z0-9+.-]*://[^/\s:@"']*:(?P<v>[^/\s"']+)@`),
	form("token in an address", `\b[a-z][a-z0-9+.-]*://(?P<v>[A-Za-z0-9_.~-]{20,})@`),
	form("signed address",
		`(?i)[?&](?:sig|signature|x-amz-signature|x-amz-security-token|x-amz-credential|x-goog-signature|access_token|code|key|token)=(?P<v>[^&\s"'<>]+)`),
}

// formats are secrets by how they look. Their makers chose these forms so that they are found.
var formats = []rule{
	// JSON Web Tokens: three parts in base64url (RFC 7519), or five if encrypted (RFC 7516), the first of which is a
	// JSON object.
	form("JWT", `eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+){0,2}`),
	// Bootstrap tokens of kubeadm: six and sixteen characters (kubernetes, bootstrap-token-api).
	form("bootstrap token", `\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
	form("k3s", `\bK10[0-9a-f]{64}::[^\s"']+`),
	form("AWS key", `\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}\b`),
	form("Google API key", `\bAIza[0-9A-Za-z_-]{35}`),
	form("Google OAuth", `\bya29\.[0-9A-Za-z_-]{16,}|\bGOCSPX-[0-9A-Za-z_-]{20,}`),
	form("GitHub", `\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{22,}`),
	form("GitLab", `\bgl(?:pat|dt|ptt|rt|soat|cbt|agent)-[A-Za-z0-9_-]{16,}`),
	form("Slack",
		`\bxox[abeoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/(?:services|workflows)/(?P<v>[A-Za-z0-9/_-]{16,})`),
	form("npm, PyPI, RubyGems", `\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{16,}|\brubygems_[0-9a-f]{32,}`),
	form("Docker", `\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}`),
	form("Stripe", `\b(?:sk|rk|whsec)_(?:live_|test_)?[0-9a-zA-Z]{16,}`),
	form("SendGrid, Mailgun, Twilio", `\bSG\.[\w-]{16,}\.[\w-]{16,}|\bkey-[0-9a-f]{32}\b|\bSK[0-9a-f]{32}\b`),
	form("DigitalOcean, Linode", `\bdo[opr]_v1_[a-f0-9]{40,}`),
	form("Vault", `\bhv[sbr]\.[A-Za-z0-9_-]{20,}|\bs\.[A-Za-z0-9]{24}\b`),
	form("age", `\bAGE-SECRET-KEY-1[0-9A-Z]{40,}`),
	form("OpenAI, Anthropic, Hugging Face", `\bsk-[A-Za-z0-9_-]{20,}|\bhf_[A-Za-z0-9]{30,}`),
	form("Azure AD", `\b[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{30,}`),
	form("key of 64 bytes", `(?:^|[^A-Za-z0-9+/])(?P<v>[A-Za-z0-9+/]{86}==)`),
	form("hash of a password",
		`\$(?:1|2[abxy]|5|6|7|apr1|y|gy|argon2(?:id|i|d)|scrypt|pbkdf2[a-z0-9-]*)\$[./A-Za-z0-9$=,+_-]{20,}`),
}

// hidesKey reports whether a text in base64 begins as a private key does.
func hidesKey(found string) bool {
	text := strings.TrimRight(found, "=")
	data, _ := base64.RawStdEncoding.DecodeString(text[:min(len(text)/4*4, 80)])
	return bytes.Contains(data, []byte("PRIVATE KEY"))
}

// Redact replaces what looks like a secret, and returns how often it did. More is replaced than has to be.
func Redact(data []byte) (clean []byte, replaced int) {
	data, replaced = redactSecrets(data)
	data, n := replaceAll(rules[:spanning], data)
	replaced += n
	for len(data) > 0 {
		part, hot := nextPart(data)
		data = data[len(part):]
		if hot {
			part, n = replaceAll(settings, part)
			replaced += n
		}
		clean = append(clean, part...)
	}
	clean, n = replaceAll(rules[spanning:], clean)
	return clean, replaced + n
}

// spanning is how many of rules are for what spans lines.
const spanning = 4

// nextPart returns the lines at the begin of data that have a hint, each with the line behind it, or those that have
// none.
func nextPart(data []byte) (part []byte, hot bool) {
	end := 0
	for first := true; end < len(data); first = false {
		line := data[end:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		has := hint.Match(line)
		if first {
			hot = has
		}
		if has != hot {
			if hot { // its value may be on this line
				end += len(line)
			}
			break
		}
		end += len(line)
	}
	return data[:end], hot
}

func replaceAll(rules []rule, data []byte) (clean []byte, replaced int) {
	for _, r := range rules {
		var n int
		data, n = r.replace(data)
		replaced += n
	}
	return data, replaced
}

const removed = "(removed)"

func (r rule) replace(data []byte) (clean []byte, replaced int) {
	group := max(r.re.SubexpIndex("v"), 0)
	last := 0
	for _, at := range r.re.FindAllSubmatchIndex(data, -1) {
		from, to := at[2*group], at[2*group+1]
		if from < 0 { // another alternative of the form
			from, to = at[0], at[1]
		}
		found := string(data[from:to])
		if strings.Contains(found, removed) && len(found) < 2*len(removed) || r.secret != nil && !r.secret(found) {
			continue
		}
		clean = append(append(clean, data[last:from]...), removed...)
		last = to
		replaced++
	}
	return append(clean, data[last:]...), replaced
}

var (
	secretYAML  = regexp.MustCompile(`(?m)^kind:[ \t]*["']?Secret["']?[ \t]*\r?$`)
	secretJSON  = regexp.MustCompile(`"kind"\s*:\s*"Secret"`)
	dataOfJSON  = regexp.MustCompile(`"(?:data|stringData)"\s*:\s*\{(?P<v>[^{}]*)\}`)
	dataOfYAML  = regexp.MustCompile(`(?m)^(?:data|stringData):[ \t]*\r?\n(?P<v>(?:[ \t]+[^\n]*\n?)+)`)
	yamlDivider = regexp.MustCompile(`(?m)^---[ \t]*\r?$`)
)

// redactSecrets replaces what Secrets of Kubernetes hold, whatever the names of their keys are.
func redactSecrets(data []byte) (clean []byte, replaced int) {
	if secretJSON.Match(data) {
		return rule{re: dataOfJSON}.replace(data)
	}
	last := 0
	for _, at := range append(yamlDivider.FindAllIndex(data, -1), []int{len(data), len(data)}) {
		document := data[last:at[0]]
		if secretYAML.Match(document) {
			var n int
			document, n = rule{re: dataOfYAML}.replace(document)
			replaced += n
		}
		clean = append(append(clean, document...), data[at[0]:at[1]]...)
		last = at[1]
	}
	return clean, replaced
}
