package image

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// login is one entry of a docker configuration.
type login struct {
	Username, Password, Auth, IdentityToken string
}

// NodeConfigFolders are the folders that upstream's kubelet looks into: its own, the working folder, and the user's.
func NodeConfigFolders(root string) []string {
	folders := []string{root, "."}
	if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, filepath.Join(home, ".docker"))
	}
	return folders
}

// nodeSecrets reads the credentials that the node has for all pods. A file that is not there or cannot be read has none.
func nodeSecrets(folders []string) (out []v1.Secret) {
	for _, dir := range folders {
		if data, err := os.ReadFile(filepath.Join(dir, "config.json")); err == nil {
			out = append(out, v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: data}})
		}
	}
	return out
}

// The registry of names that have none, and what logins for it are kept under.
const (
	defaultRegistry = "docker.io"
	defaultKey      = "index.docker.io"
)

// credentials picks those logins whose registry matches the image, the most exact match of each secret first.
func credentials(name string, secrets []v1.Secret) []*cri.AuthConfig {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil
	}
	host, repository := reference.Domain(ref), reference.Path(ref)
	var out []*cri.AuthConfig
	for _, s := range secrets {
		logins := loginsOf(s)
		var fitting []string
		for registry := range logins {
			if matches(registry, host, repository) {
				fitting = append(fitting, registry)
			}
		}
		slices.SortFunc(fitting, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
		for _, registry := range fitting {
			out = append(out, logins[registry].auth())
		}
	}
	return out
}

func loginsOf(s v1.Secret) map[string]login {
	if data, ok := s.Data[v1.DockerConfigJsonKey]; ok {
		var cfg struct{ Auths map[string]login }
		if json.Unmarshal(data, &cfg) == nil {
			return cfg.Auths
		}
		return nil
	}
	logins := map[string]login{}
	if json.Unmarshal(s.Data[v1.DockerConfigKey], &logins) != nil {
		return nil
	}
	return logins
}

func (l login) auth() *cri.AuthConfig {
	auth := &cri.AuthConfig{Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken}
	// With and without padding, as upstream takes both.
	if raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(l.Auth, "=")); err == nil && l.Auth != "" {
		auth.Username, auth.Password, _ = strings.Cut(string(raw), ":")
		auth.Password = strings.TrimRight(auth.Password, "\x00")
	}
	return auth
}

// matches compares a registry of a login with an image: host by host name part, where * stands for a part or a piece of
// it; the path is a prefix.
func matches(registry, host, repository string) bool {
	registry = strings.TrimPrefix(strings.TrimPrefix(registry, "https://"), "http://")
	registry = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(registry, "/"), "/v1"), "/v2")
	regHost, regPath, _ := strings.Cut(registry, "/")
	if regHost == defaultKey && host == defaultRegistry {
		regHost = host
	}
	return sameHost(regHost, host) && strings.HasPrefix(repository, regPath)
}

func sameHost(pattern, host string) bool {
	if pattern == host { // also an address of IPv6, whose brackets would be a pattern
		return true
	}
	want, wantPort, _ := strings.Cut(pattern, ":")
	have, havePort, _ := strings.Cut(host, ":")
	wants, haves := strings.Split(want, "."), strings.Split(have, ".")
	if wantPort != havePort || len(wants) != len(haves) {
		return false
	}
	for i := range wants {
		if ok, err := path.Match(wants[i], haves[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
