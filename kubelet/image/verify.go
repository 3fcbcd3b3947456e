package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/kubelet/credential"
)

// Verifier remembers by whose logins images were pulled, so that a pod without such a login does not get a private
// image because it is on the node already. It writes upstream's files (pkg/kubelet/images/pullmanager of 1.36.3): one
// in pulling for each pull under way, one in pulled for each image. Make it with NewVerifier. It is safe for
// concurrent use.
type Verifier struct {
	// Checked is told the outcome of each check; nil for nobody. Set it before the first use.
	Checked func(outcome string)

	dir     string
	policy  v1beta1.ImagePullCredentialsVerificationPolicy
	allowed []string
	now     func() time.Time
	mu      sync.Mutex // of the files
}

// NewVerifier returns a Verifier of a policy, whose files are in dir. allowed are the images that the policy
// NeverVerifyAllowlistedImages is about: names without tags, or beginnings of names with /* at their end.
func NewVerifier(dir string, policy v1beta1.ImagePullCredentialsVerificationPolicy, allowed []string) (*Verifier,
	error) {
	if !slices.Contains([]v1beta1.ImagePullCredentialsVerificationPolicy{v1beta1.NeverVerify,
		v1beta1.NeverVerifyPreloadedImages, v1beta1.NeverVerifyAllowlistedImages, v1beta1.AlwaysVerify}, policy) {
		return nil, fmt.Errorf("unknown image pull credential verification policy: %v", policy)
	}
	v := &Verifier{dir: dir, policy: policy, allowed: allowed, now: time.Now}
	return v, errors.Join(os.MkdirAll(v.folder(pulling), 0o700), os.MkdirAll(v.folder(pulled), 0o700))
}

// The folders of the files.
const (
	pulling = "pulling"
	pulled  = "pulled"
)

func (v *Verifier) folder(name string) string { return filepath.Join(v.dir, name) }

func (v *Verifier) file(folder, name string) string {
	return filepath.Join(v.folder(folder), fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(name))))
}

// must reports whether an image that is present as ref must be pulled once more for a pod that has these logins. What
// cannot be read counts as not known: the image is pulled.
func (v *Verifier) must(image, ref string, have []owned) bool {
	pull, why := v.check(image, ref, have)
	if v.Checked != nil {
		v.Checked(why)
	}
	return pull
}

// check is must. why is the outcome in upstream's words.
func (v *Verifier) check(image, ref string, have []owned) (pull bool, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	record, err := v.read(ref)
	if err != nil {
		return true, "error"
	}
	ours := record != nil
	if !ours {
		_, err := os.Stat(v.file(pulling, image))
		ours = !errors.Is(err, os.ErrNotExist) // a pull that a kubelet did not see the end of
	}
	repository := repositoryOf(image)
	switch {
	case !verified(v.policy, v.allowed, repository, ours):
		return false, "credentialPolicyAllowed"
	case record != nil && allows(record.CredentialMapping[repository], have):
		return false, "credentialRecordFound"
	}
	return true, "mustAuthenticate"
}

// Kept counts the files: pulls whose end is not known, and images whose pull is remembered.
func (v *Verifier) Kept() (intents, records int) {
	count := func(folder string) int {
		list, _ := os.ReadDir(v.folder(folder)) // what cannot be read is not counted
		return len(list)
	}
	return count(pulling), count(pulled)
}

// verified reports whether a policy asks for the logins of an image. ours reports whether a kubelet pulled it.
func verified(policy v1beta1.ImagePullCredentialsVerificationPolicy, allowed []string, repository string,
	ours bool) bool {
	switch policy {
	case v1beta1.NeverVerify:
		return false
	case v1beta1.NeverVerifyPreloadedImages:
		return ours
	case v1beta1.NeverVerifyAllowlistedImages:
		return !slices.ContainsFunc(allowed, func(pattern string) bool {
			below, wild := strings.CutSuffix(pattern, "/*")
			return repository == pattern || wild && strings.HasPrefix(repository, below+"/")
		})
	}
	return true
}

// allows reports whether one of the logins that a pod has pulled the image before: the same login, another one of the
// same secret, or any of the same service account.
func allows(known v1beta1.ImagePullCredentials, have []owned) bool {
	return known.NodePodsAccessible || slices.ContainsFunc(have, func(o owned) bool {
		if o.account != nil {
			return slices.Contains(known.KubernetesServiceAccounts, *o.account)
		}
		s := o.secret
		return s != nil && slices.ContainsFunc(known.KubernetesSecrets, func(k v1beta1.ImagePullSecret) bool {
			return s.CredentialHash == k.CredentialHash && s.CredentialHash != "" || sameSecret(*s, k)
		})
	})
}

func sameSecret(a, b v1beta1.ImagePullSecret) bool {
	return a.UID == b.UID && a.Namespace == b.Namespace && a.Name == b.Name
}

// begin notes that an image is about to be pulled.
func (v *Verifier) begin(image string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return write(v.file(pulling, image), v1beta1.ImagePullIntent{TypeMeta: typeOf("ImagePullIntent"), Image: image})
}

// failed takes the note back.
func (v *Verifier) failed(image string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = os.Remove(v.file(pulling, image)) // one that is left makes the next pod's image be pulled
}

// succeeded remembers by which login an image was pulled; the zero one stands for none. One that is neither of a
// secret nor of a service account is the node's.
func (v *Verifier) succeeded(image, ref string, by owned) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	record, err := v.read(ref)
	if err != nil || record == nil { // what cannot be read is written anew
		record = &v1beta1.ImagePulledRecord{ImageRef: ref}
	}
	merge(record, repositoryOf(image), by)
	record.TypeMeta = typeOf("ImagePulledRecord")
	record.LastUpdatedTime = metav1.NewTime(v.now())
	if err := write(v.file(pulled, ref), record); err != nil {
		return err
	}
	_ = os.Remove(v.file(pulling, image))
	return nil
}

// merge adds a login to a record.
func merge(record *v1beta1.ImagePulledRecord, repository string, by owned) {
	if record.CredentialMapping == nil {
		record.CredentialMapping = map[string]v1beta1.ImagePullCredentials{}
	}
	known := record.CredentialMapping[repository]
	switch {
	case known.NodePodsAccessible:
	case by.account != nil:
		if !slices.Contains(known.KubernetesServiceAccounts, *by.account) {
			known.KubernetesServiceAccounts = append(known.KubernetesServiceAccounts, *by.account)
		}
	case by.secret != nil:
		known.KubernetesSecrets = slices.DeleteFunc(known.KubernetesSecrets,
			func(k v1beta1.ImagePullSecret) bool { return sameSecret(k, *by.secret) })
		known.KubernetesSecrets = append(known.KubernetesSecrets, *by.secret)
	default:
		known = v1beta1.ImagePullCredentials{NodePodsAccessible: true}
	}
	record.CredentialMapping[repository] = known
}

// Prune forgets images that are not on the node any more. refs are those that are, as they were before began.
func (v *Verifier) Prune(refs []string, began time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entries, _ := os.ReadDir(v.folder(pulled))
	for _, e := range entries {
		path := filepath.Join(v.folder(pulled), e.Name())
		var record v1beta1.ImagePulledRecord
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &record) != nil || slices.Contains(refs, record.ImageRef) ||
			!record.LastUpdatedTime.Time.Before(began) {
			continue
		}
		_ = os.Remove(path) // the next pruning finds it again
	}
}

// read returns what is remembered of an image; nil if nothing is.
func (v *Verifier) read(ref string) (*v1beta1.ImagePulledRecord, error) {
	text, err := os.ReadFile(v.file(pulled, ref))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var record v1beta1.ImagePulledRecord
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	return &record, err
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: v1beta1.SchemeGroupVersion.String()}
}

func write(path string, content any) error {
	text, err := json.Marshal(content)
	if err == nil {
		err = atomicfile.Write(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting the pull of an image: %w", err)
	}
	return nil
}

// repositoryOf returns the name of an image without tag and digest.
func repositoryOf(image string) string {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return reference.TrimNamed(ref).Name()
}

// owned is a login with the secret, or the service account, that it is of. Both are nil for the node's.
type owned struct {
	auth    *cri.AuthConfig
	secret  *v1beta1.ImagePullSecret
	account *v1beta1.ImagePullServiceAccount
}

// ownedLogins returns the logins for an image, in the order of credentials, with their secrets.
func ownedLogins(name string, secrets []v1.Secret) []owned {
	var out []owned
	for _, s := range secrets {
		for _, auth := range credentials(name, []v1.Secret{s}) {
			o := owned{auth: auth}
			if s.Name != "" {
				o.secret = &v1beta1.ImagePullSecret{UID: string(s.UID), Namespace: s.Namespace, Name: s.Name,
					CredentialHash: hashOf(auth)}
			}
			out = append(out, o)
		}
	}
	return out
}

// found returns the logins for an image that programs of the node know.
func (p *Puller) found(ctx context.Context, name string, pod credential.Pod) (out []owned) {
	for _, f := range p.Providers.Logins(ctx, repositoryOf(name), pod) {
		for _, auth := range credentials(name, []v1.Secret{f.Secret}) {
			out = append(out, owned{auth: auth, account: f.Account})
		}
	}
	return out
}

// authsOf returns logins as CRI has them.
func authsOf(logins []owned) (out []*cri.AuthConfig) {
	for _, l := range logins {
		out = append(out, l.auth)
	}
	return out
}

// hashOf is upstream's hash of a login (pkg/credentialprovider of 1.36.3).
func hashOf(auth *cri.AuthConfig) string {
	text, err := json.Marshal(struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		Auth          string `json:"auth,omitempty"`
		ServerAddress string `json:"serveraddress,omitempty"`
		IdentityToken string `json:"identitytoken,omitempty"`
		RegistryToken string `json:"registrytoken,omitempty"`
	}{auth.Username, auth.Password, auth.Auth, auth.ServerAddress, auth.IdentityToken, auth.RegistryToken})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
