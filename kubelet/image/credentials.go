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

	"porthole.dev/porthole/internal/registry"
)

// login is one entry of a docker configuration.
type login struct {
	Username, Password, Auth, IdentityToken string
}

// NodeConfigFolders returns the folders in which upstream's kubelet looks for a config.json: its own folder root, the
// working folder, and the user's.
func NodeConfigFolders(root string) []string {
	folders := []string{root, "."}
	if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, filepath.Join(home, ".docker"))
	}
	return folders
}

// nodeSecrets reads the credentials that the node has for all pods. It skips files that are absent or cannot be read.
func nodeSecrets(folders []string) (out []v1.Secret) {
	for _, dir := range folders {
		if data, err := os.ReadFile(filepath.Join(dir, "config.json")); err == nil {
			out = append(out, v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: data}})
		}
	}
	return out
}

// Logins returns the logins for an image from the config.json files of some folders, in the order in which they are to
// be tried.
func Logins(name string, folders []string) (out []registry.Login) {
	for _, auth := range credentials(name, nodeSecrets(folders)) {
		out = append(out, loginOf(auth))
	}
	return out
}

// loginOf converts a login of CRI to one of package registry. For nil it returns the zero Login, which logs nobody in.
func loginOf(auth *cri.AuthConfig) registry.Login {
	return registry.Login{Username: auth.GetUsername(), Password: auth.GetPassword(),
		IdentityToken: auth.GetIdentityToken()}
}

// defaultRegistry is the registry of image names without one, and defaultKey the name of its logins.
const (
	defaultRegistry = "docker.io"
	defaultKey      = "index.docker.io"
)

// credentials returns the logins whose registry matches the image. Of each secret, the longest match comes first.
func credentials(name string, secrets []v1.Secret) []*cri.AuthConfig {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil
	}
	host := reference.Domain(ref)
	repository := reference.Path(ref)
	var out []*cri.AuthConfig
	for _, s := range secrets {
		logins := loginsOf(s)
		var fitting []string
		for registry := range logins {
			if matches(registry, host, repository) {
				fitting = append(fitting, registry)
			}
		}
		slices.SortFunc(fitting, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
		})
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
	// upstream accepts base64 with and without padding
	if raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(l.Auth, "=")); err == nil && l.Auth != "" {
		auth.Username, auth.Password, _ = strings.Cut(string(raw), ":")
		auth.Password = strings.TrimRight(auth.Password, "\x00")
	}
	return auth
}

// matches reports whether the registry of a login is that of an image. Hosts are compared part by part, and * in the
// registry stands for any text within a part. The registry's path must be a prefix of the repository.
func matches(login, host, repository string) bool {
	login = strings.TrimPrefix(strings.TrimPrefix(login, "https://"), "http://")
	login = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(login, "/"), "/v1"), "/v2")
	regHost, regPath, _ := strings.Cut(login, "/")
	if regHost == defaultKey && host == defaultRegistry {
		regHost = host
	}
	return sameHost(regHost, host) && strings.HasPrefix(repository, regPath)
}

// Matches reports whether the registry of a login, or a pattern of a credential provider, is about an image.
func Matches(pattern, image string) bool {
	ref, err := reference.ParseNormalizedNamed(image)
	return err == nil && matches(pattern, reference.Domain(ref), reference.Path(ref))
}

// RegistryOf returns the registry of an image.
func RegistryOf(image string) string {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	return reference.Domain(ref)
}

// sameHost reports whether host is one that pattern means. A host is its name and its port. Names have the same number
// of parts between dots, so that * never stands for more than one of them; the port, if there is one, must be the
// same.
func sameHost(pattern, host string) bool {
	if pattern == host { // IPv6 addresses are compared here only: path.Match would take their brackets for a pattern
		return true
	}
	want, wantPort, _ := strings.Cut(pattern, ":")
	have, havePort, _ := strings.Cut(host, ":")
	wants := strings.Split(want, ".")
	haves := strings.Split(have, ".")
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
