package report

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// made returns a text of n characters that are in from.
func made(r *rand.Rand, n int, from string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[r.IntN(len(from))]
	}
	return string(b)
}

const (
	lower = "abcdefghijklmnopqrstuvwxyz"
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digit = "0123456789"
	hex16 = "0123456789abcdef"
	word  = lower + upper + digit
)

// sample is a text with a secret in it.
type sample struct{ form, text, secret string }

// samples returns texts of each form that the list of secrets knows.
func samples(r *rand.Rand) (list []sample) {
	add := func(form, format string, secret string, args ...any) {
		list = append(list, sample{form, fmt.Sprintf(format, append(args, secret)...), secret})
	}
	password := func() string { return made(r, 8+r.IntN(16), word+"!#%*+-_.") + made(r, 2, word) }

	for _, name := range []string{"DB_PASSWORD", "PGPASSWORD", "MYSQL_ROOT_PASSWORD", "REDIS_PASS",
		"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "NPM_TOKEN", "SLACK_BOT_TOKEN",
		"ARM_CLIENT_SECRET", "AZURE_CLIENT_SECRET", "AZURE_STORAGE_KEY", "AZURE_STORAGE_CONNECTION_STRING",
		"STRIPE_API_KEY", "SENDGRID_API_KEY", "DATADOG_API_KEY", "DD_APP_KEY", "VAULT_TOKEN",
		"CONSUL_HTTP_TOKEN", "OPENAI_API_KEY", "SECRET_KEY_BASE", "DJANGO_SECRET_KEY", "JWT_SIGNING_KEY",
		"ENCRYPTION_KEY", "APP_KEY", "SMTP_PASSWORD", "LDAP_BIND_PWD", "KEYSTORE_PASSPHRASE",
		"K3S_TOKEN", "DOCKER_PASSWORD", "SA_PASSWORD", "RABBITMQ_DEFAULT_PASS", "MASTER_KEY", "HMAC_KEY",
		"TWILIO_AUTH_TOKEN", "PASSWORD", "password", "TOKEN_2", "DB_PASSWORD_PROD"} {
		add("env file", "LOG_LEVEL=debug\n%s=%s\nPORT=8080\n", password(), name)
		add("env file with quotes", "export %s=\"%s and more\"\n", password(), name)
	}
	for _, name := range []string{"password", "adminPassword", "client_secret", "clientSecret", "secret", "token",
		"accessToken", "refresh_token", "apiKey", "api-key", "private_key", "accountKey", "SecretAccessKey",
		"SessionToken",
		"sharedAccessKey", "connectionString", "dbPassword", "bindPassword", "passphrase", "x-api-key", "id_token",
		"webhookUrl", "signingKey", "subscription-key", "saPassword"} {
		add("JSON", `{"name": "x", "%s":"%s", "port": 1}`, password(), name)
		add("JSON with spaces and quotes", `{"%s" : "abc \"d %s", "user":"u"}`, password(), name)
		add("JSON in a log", `msg="got" body="{\"%s\":\"%s\"}"`, password(), name)
		add("YAML", "spec:\n  user: u\n  %s: %s with a space\n  port: 1\n", password(), name)
		add("YAML with quotes", "- %s: '%s'\n", password(), name)
	}
	for _, name := range []string{"password", "token", "client-secret", "certificate-key", "registry-password",
		"api-key"} {
		add("flag", "kubeadm join --%s %s --v=5", password(), name)
		add("flag with =", "tool --%s=%s --v=5", password(), name)
		add("arguments", `args: ["--%s", "%s"]`, "x"+password(), name)
		add("pod's variable in YAML", "env:\n- name: %s\n  value: %s\n", password(),
			strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		add("pod's variable in JSON", `{"env":[{"name":"%s","value":"%s"}]}`, password(),
			strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}

	add("docker", `{"auths":{"registry.example":{"auth":"%s"}}}`,
		base64.StdEncoding.EncodeToString([]byte("user:"+password())))
	add("docker", "{\n\t\"auths\": {\n\t\t\"https://index.docker.io/v1/\": {\n\t\t\t\"auth\": \"%s\"\n\t\t}\n\t}\n}",
		base64.StdEncoding.EncodeToString([]byte("user:"+password())))
	add("docker", `{"auths":{"r":{"username":"u","password":"%s","email":"e@x"}}}`, password())
	add("docker", `{"auths":{"r":{"identitytoken":"%s"}}}`, made(r, 40, word))
	add("docker", "  .dockerconfigjson: %s\n",
		base64.StdEncoding.EncodeToString([]byte(`{"auths":{"r":{"auth":"x"}}}`+password())))
	add("docker", "docker login -u u --password %s r", password())
	for _, kind := range []string{"RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY",
		"OPENSSH PRIVATE KEY", "DSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"} {
		key := made(r, 64, word+"+/")
		add("PEM", "x\n-----BEGIN "+kind+"-----\n%s\n-----END "+kind+"-----\ny", key)
		add("PEM in JSON", `{"k":"-----BEGIN `+kind+`-----\n%s\n-----END `+kind+`-----\n"}`, key)
		add("begin of a PEM", "x\n-----BEGIN "+kind+"-----\n%s\nab", key)
		add("end of a PEM", "%s\n-----END "+kind+"-----\ny", key)
		add("PEM in base64", "data: %s",
			base64.StdEncoding.EncodeToString([]byte("-----BEGIN "+kind+"-----\n"+key+"\n-----END "+kind+"-----\n")))
	}
	jwt := func() string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." +
			base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + "." + made(r, 43, word+"-_")
	}
	add("JWT", "got %s here", jwt())
	add("JWT encrypted", "got %s here",
		base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RSA-OAEP"}`))+"."+made(r, 40, word)+"."+made(r, 16, word)+
			"."+made(r, 40, word)+"."+made(r, 22, word))
	add("header", "Authorization: Bearer %s\n", jwt())
	add("header", "authorization: Basic %s\n", base64.StdEncoding.EncodeToString([]byte("u:"+password())))
	add("header", "curl -H 'X-Api-Key: %s' x", made(r, 32, word))
	add("header", "Cookie: a=1; session=%s\n", made(r, 32, word))
	add("header", "Set-Cookie: s=%s; HttpOnly\n", made(r, 32, word))
	add("header in Go", `map[Authorization:[Bearer %s]]`, made(r, 32, word))
	for form, secret := range map[string]string{
		"AWS": "AKIA" + made(r, 16, upper+digit), "AWS session": "ASIA" + made(r, 16, upper+digit),
		"Google": "AIza" + made(r, 35, word), "Google OAuth": "ya29." + made(r, 60, word),
		"GitHub": "ghp_" + made(r, 36, word), "GitHub app": "ghs_" + made(r, 36, word),
		"GitHub fine": "github_pat_" + made(r, 82, word), "GitLab": "glpat-" + made(r, 20, word),
		"Slack": "xoxb-" + made(r, 11, digit) + "-" + made(r, 24, word), "npm": "npm_" + made(r, 36, word),
		"PyPI": "pypi-AgEIcHlwaS5vcmc" + made(r, 60, word), "Docker": "dckr_pat_" + made(r, 27, word),
		"Stripe": "sk_live_" + made(r, 24, word), "SendGrid": "SG." + made(r, 22, word) + "." + made(r, 43, word),
		"DigitalOcean": "dop_v1_" + made(r, 64, hex16), "Vault": "hvs." + made(r, 90, word),
		"Azure AD": made(r, 3, word) + "8Q~" + made(r, 34, word), "Azure storage": made(r, 86, word+"+/") + "==",
		"age": "AGE-SECRET-KEY-1" + made(r, 58, upper+digit), "OpenAI": "sk-" + made(r, 48, word),
		"kubeadm":  made(r, 6, lower+digit) + "." + made(r, 16, lower+digit),
		"k3s":      "K10" + made(r, 64, hex16) + "::server:" + made(r, 32, hex16),
		"htpasswd": "$2y$10$" + made(r, 53, word), "shadow": "$6$" + made(r, 16, word) + "$" + made(r, 86, word),
	} {
		add(form, "found %s in it", secret)
		add(form, `{"x":"%s"}`, secret)
	}
	add("connection string", "Server=db;Database=x;User Id=sa;Password=%s;Encrypt=true", made(r, 12, word))
	add("connection string", "AccountName=x;AccountKey=%s;EndpointSuffix=core.windows.net", made(r, 40, word))
	add("connection string", "Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=%s", made(r, 43, word)+"=")
	add("address", "postgres://user:%s@db:5432/x", made(r, 12, word))
	add("address", "https://u:%s@registry/v2", "p@ss"+made(r, 8, word))
	add("address", "git clone https://%s@github.com/x/y", made(r, 40, hex16))
	add("address", "https://x.blob.core.windows.net/c?sv=2024&sig=%s&se=2026", made(r, 40, word)+"%3D")
	add("address", "https://b.s3.amazonaws.com/k?X-Amz-Signature=%s", made(r, 64, hex16))
	add("XML", "<config><password>%s</password></config>", made(r, 12, word))
	add("XML", `<add key="ApiKey" value="%s" />`, made(r, 12, word))
	add("PowerShell", `$env:DB_PASSWORD = "%s"`, made(r, 12, word))
	add("cmd", "setx DB_PASSWORD %s", made(r, 12, word))
	add("Dockerfile", "ENV DB_PASSWORD %s\n", made(r, 12, word))
	add("netrc", "machine x login u password %s", made(r, 12, word))
	add("npmrc", "//packages.example.com/:_authToken=%s", made(r, 40, word))
	add("ini", "[mysql]\nuser = u\npassword = %s\n", made(r, 12, word))
	add("kubeconfig", "users:\n- user:\n    client-key-data: %s\n",
		base64.StdEncoding.EncodeToString([]byte(made(r, 60, word))))
	add("BGP", "peers: [{peerIP: 10.0.0.1, password: %s}]", made(r, 12, word))
	add("Secret", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  anything: %s\ntype: Opaque\n",
		base64.StdEncoding.EncodeToString([]byte(password())))
	add("Secret", "a: b\n---\nkind: Secret\nstringData:\n  f.ini: |\n    %s\n", made(r, 12, word))
	add("Secret", `{"kind":"Secret","data":{"anything":"%s"},"type":"Opaque"}`,
		base64.StdEncoding.EncodeToString([]byte(password())))
	add("Go struct", "{User:u Password:%s Port:1}", made(r, 12, word))
	add("log", `level=info msg="logged in" password=%s user=u`, made(r, 12, word))
	return list
}

// TestRedactSamples: the secret of each of the made samples is gone, whatever it is.
func TestRedactSamples(t *testing.T) {
	for seed := range uint64(5) {
		list := samples(rand.New(rand.NewPCG(seed, 14)))
		if len(list) < 200 {
			t.Fatalf("%d samples, want 200", len(list))
		}
		for _, s := range list {
			got, n := Redact([]byte(s.text))
			if strings.Contains(string(got), s.secret) || n == 0 {
				t.Errorf("%s: %d replaced\n%s\nbecomes\n%s", s.form, n, s.text, got)
			}
		}
	}
}

// TestRedactLeaves: texts of logs and of this program without a secret stay as they are.
func TestRedactLeaves(t *testing.T) {
	for _, text := range []string{
		`I1128 18:50:15.000000 1 kubelet.go:12] "Started container" pod="default/web-7f9c5d8b7-x2x4z" container="web" uid="3f1c7a1e-5c1b-4d2a-9d6f-0a1b2c3d4e5f"`,
		"secretName: web-tls", "  secretName: web-tls\n", `"secretKeyRef":{"name":"db","key":"x"}`,
		"imagePullSecrets: [regcred]", "automountServiceAccountToken: false", `"automountServiceAccountToken":true`,
		"tokenExpirationSeconds: 3607", "--token-file=/etc/kubernetes/token",
		"tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", "passwordFile: /etc/x",
		"mount of /var/run/secrets failed",
		`MountVolume.SetUp failed for volume "kube-api-access-abcde" : failed to fetch token`, "author: somebody",
		"authenticated=true", "authority https://10.99.0.11:6443", "keyFile: /etc/kubernetes/pki/apiserver.key",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"registry.k8s.io/pause:3.10@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"2026-11-28T18:50:15.123456789Z stdout F listening on 0.0.0.0:8080",
		"10.244.1.0/24 via 10.99.0.21 (win01) present", "porthole_routes_present 3",
		`{"node":"win01","wanted":3,"present":3,"routes":[]}`,
		"-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----",
		"HCN: creating endpoint 0E9A8B7C-1111-2222-3333-444455556666 on network porthole", "0e:2a:0a:f4:01:00",
		`C:\var\lib\kubelet\pods\3f1c\volumes`,
		"password is wrong", "no password was given", "the token has expired", "a bearer token was refused",
		"basic checks passed", "bypass=1", "compass: north", "keys: 12", "monkey=1", "v1.36.3+porthole.1",
		"kind: ConfigMap\ndata:\n  a: b\n",
		"password: \"\"", `"token":null`, "digest mismatch of layer", "session with 10.99.0.1 is up",
		"git commit 47fef1db9aeb0485e6eb8765", "http://10.96.0.10:53/", "token bucket is empty",
		"basic authentication is off", "bearer tokens are checked",
	} {
		if got, n := Redact([]byte(text)); string(got) != text || n != 0 {
			t.Errorf("%q becomes %q (%d)", text, got, n)
		}
	}
}
