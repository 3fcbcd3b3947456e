package image

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/kubelet/credential"
)

// pullSecret is the secret of a namespace with the login of a user of a.b.
func pullSecret(namespace, user string) v1.Secret {
	return v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: namespace, UID: types.UID("uid-" + namespace)},
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(
			fmt.Sprintf(`{"auths":{"a.b":{"username":%q,"password":"p"}}}`, user))}}
}

// TestPrivateImage: an image that was pulled with a login is given to those who have it, and to others only if the
// registry lets them pull it too.
func TestPrivateImage(t *testing.T) {
	s := &store{has: map[string]bool{"a.b/preloaded:1": true}, users: []string{"good", "other"}}
	dir := t.TempDir()
	fresh := func(policy v1beta1.ImagePullCredentialsVerificationPolicy, allowed ...string) *Puller {
		p := newPuller(t, s)
		var err error
		if p.Verify, err = NewVerifier(dir, policy, allowed); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := fresh(v1beta1.NeverVerifyPreloadedImages)
	want := func(what, image string, policy v1.PullPolicy, pulls int, reason string, secrets ...v1.Secret) {
		t.Helper()
		before := len(s.pulls)
		_, err, _ := ask(p, Request{Name: image, Policy: policy, PodUID: what, Secrets: secrets})
		got := ""
		if err != nil {
			got = err.Reason
		}
		if n := len(s.pulls) - before; n != pulls || got != reason {
			t.Errorf("%s: %d pulls, %q, want %d, %q", what, n, got, pulls, reason)
		}
	}

	want("the first", "a.b/c:1", v1.PullIfNotPresent, 1, "", pullSecret("ns", "good"))
	want("the same secret", "a.b/c:1", v1.PullIfNotPresent, 0, "", pullSecret("ns", "good"))
	want("the same secret, another login", "a.b/c:1", v1.PullIfNotPresent, 0, "", pullSecret("ns", "renewed"))
	want("the same login, another secret", "a.b/c:1", v1.PullIfNotPresent, 0, "", pullSecret("elsewhere", "good"))
	want("no login", "a.b/c:1", v1.PullIfNotPresent, 1, ErrImagePull)
	want("no login, never", "a.b/c:1", v1.PullNever, 0, ErrImageNeverPull)
	want("a login that the registry refuses", "a.b/c:1", v1.PullIfNotPresent, 1, ErrImagePull,
		pullSecret("evil", "evil"))
	want("another good login", "a.b/c:1", v1.PullIfNotPresent, 1, "", pullSecret("third", "other"))
	want("it is known then", "a.b/c:1", v1.PullIfNotPresent, 0, "", pullSecret("third", "other"))
	want("an image that was there before", "a.b/preloaded:1", v1.PullIfNotPresent, 0, "")

	p = fresh(v1beta1.NeverVerifyPreloadedImages) // the next kubelet
	want("after a restart, known", "a.b/c:1", v1.PullIfNotPresent, 0, "", pullSecret("ns", "good"))
	want("after a restart, no login", "a.b/c:1", v1.PullIfNotPresent, 1, ErrImagePull)

	p = fresh(v1beta1.NeverVerify)
	want("never verify", "a.b/c:1", v1.PullIfNotPresent, 0, "")
	p = fresh(v1beta1.AlwaysVerify)
	want("always verify", "a.b/preloaded:1", v1.PullIfNotPresent, 1, ErrImagePull)
	p = fresh(v1beta1.NeverVerifyAllowlistedImages, "a.b/preloaded", "x.y/*")
	want("on the list", "a.b/preloaded:1", v1.PullIfNotPresent, 0, "")

	s.users = nil
	p = fresh(v1beta1.NeverVerifyPreloadedImages)
	want("public now", "a.b/c:1", v1.PullIfNotPresent, 1, "")
	want("then it is everybody's", "a.b/c:1", v1.PullIfNotPresent, 0, "")
}

// TestKilledPull: an image whose pull a kubelet did not see the end of is not taken for one that was there before.
func TestKilledPull(t *testing.T) {
	v, err := NewVerifier(t.TempDir(), v1beta1.NeverVerifyPreloadedImages, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.must("a.b/c:1", "id", nil) {
		t.Error("an image that was there before must be pulled")
	}
	if err := v.begin("a.b/c:1"); err != nil || !v.must("a.b/c:1", "id", nil) {
		t.Errorf("after the kill it is anybody's: %v", err)
	}
	v.failed("a.b/c:1")
	if v.must("a.b/c:1", "id", nil) {
		t.Error("a pull that failed is remembered")
	}

	by := v1beta1.ImagePullSecret{UID: "u", Namespace: "n", Name: "s", CredentialHash: "h"}
	if err := v.succeeded("a.b/c:1", "id", owned{secret: &by}); err != nil ||
		!v.must("a.b/d:1", "id", []owned{{secret: &by}}) {
		t.Errorf("the login of one repository counts for another: %v", err)
	}
	path := v.file(pulled, "id")
	text, err := os.ReadFile(path)
	var record v1beta1.ImagePulledRecord
	if err != nil || json.Unmarshal(text, &record) != nil || record.Kind != "ImagePulledRecord" ||
		record.APIVersion != "kubelet.config.k8s.io/v1beta1" || record.ImageRef != "id" ||
		record.CredentialMapping["a.b/c"].KubernetesSecrets[0] != by {
		t.Errorf("the file has %s, %v", text, err)
	}

	v.Prune([]string{"id"}, time.Now().Add(time.Hour))
	v.Prune(nil, time.Now().Add(-time.Hour))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("an image that is there, or came during the round, is forgotten: %v", err)
	}
	v.Prune(nil, time.Now().Add(time.Hour))
	if _, err := os.Stat(path); err == nil {
		t.Error("an image that is gone is remembered")
	}

	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil || !v.must("a.b/c:1", "id", []owned{{secret: &by}}) {
		t.Errorf("a broken file lets everybody have the image: %v", err)
	}
	if _, err := NewVerifier(filepath.Join(t.TempDir(), "x"), "Sometimes", nil); err == nil {
		t.Error("an unknown policy is taken")
	}
}

// byAccount is a program that knows a login by the pod's service account.
type byAccount struct{ asked []string }

func (b *byAccount) Logins(_ context.Context, image string, pod credential.Pod) []credential.Found {
	b.asked = append(b.asked, image)
	if pod.Account == "" {
		return nil
	}
	return []credential.Found{{Secret: pullSecret("", pod.Account),
		Account: &v1beta1.ImagePullServiceAccount{UID: "uid-" + pod.Account, Namespace: pod.Namespace,
			Name: pod.Account}}}
}

func (*byAccount) ByAccount(string) bool { return true }

// TestImageOfAnAccount: an image that was pulled by a service account is given to pods of that account, and to others
// only if the registry lets them pull it too; a later kubelet knows.
func TestImageOfAnAccount(t *testing.T) {
	s := &store{has: map[string]bool{}, users: []string{"good", "other", "good2"}}
	dir := t.TempDir()
	programs := &byAccount{}
	fresh := func() *Puller {
		p := newPuller(t, s)
		p.Providers = programs
		var err error
		if p.Verify, err = NewVerifier(dir, v1beta1.NeverVerifyPreloadedImages, nil); err != nil {
			t.Fatal(err)
		}
		return p
	}

	p := fresh()
	want := func(what, namespace, account string, pulls int, reason string) {
		t.Helper()
		before := len(s.pulls)
		_, err, _ := ask(p, Request{Name: "a.b/c:1", Policy: v1.PullIfNotPresent, PodUID: what,
			For: credential.Pod{Namespace: namespace, Account: account}})
		got := ""
		if err != nil {
			got = err.Reason
		}
		if n := len(s.pulls) - before; n != pulls || got != reason {
			t.Errorf("%s: %d pulls, %q, want %d, %q", what, n, got, pulls, reason)
		}
	}
	want("the first", "ns", "good", 1, "")
	want("the same account", "ns", "good", 0, "")
	want("the account of that name elsewhere", "elsewhere", "good", 1, "")
	want("another account", "ns", "other", 1, "")
	want("an account that the registry refuses", "ns", "evil", 1, ErrImagePull)
	want("no account", "ns", "", 1, ErrImagePull)

	p = fresh()
	want("the next kubelet knows", "ns", "other", 0, "")
	want("and whom it does not", "ns", "good2", 1, "")
	if asked := slices.Compact(programs.asked); len(asked) != 1 || asked[0] != "a.b/c" {
		t.Errorf("programs were asked for %q", asked)
	}

	var record v1beta1.ImagePulledRecord
	text, err := os.ReadFile(p.Verify.file(pulled, "id-of-a.b/c:1"))
	if err != nil || json.Unmarshal(text, &record) != nil ||
		len(record.CredentialMapping["a.b/c"].KubernetesServiceAccounts) != 4 ||
		record.CredentialMapping["a.b/c"].NodePodsAccessible {
		t.Errorf("the file has %s, %v", text, err)
	}
}
