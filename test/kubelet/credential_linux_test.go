package kubelet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// audience is that of the tokens that the plugin gets.
const audience = "registry.example.com"

// writeCredentialPlugin writes a plugin that notes what it is asked, with its configuration, and returns the kubelet's
// flags and the notes.
func writeCredentialPlugin(t *testing.T) (flags []string, notes string) {
	t.Helper()
	dir := t.TempDir()
	notes = filepath.Join(dir, "asked")
	script := fmt.Sprintf("#!/bin/sh\n{ cat; echo; } >> %s\n", notes) +
		`echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","auth":{}}'` + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "plugin"), []byte(script), 0o700))
	config := filepath.Join(dir, "config.yaml")
	must(t, os.WriteFile(config, []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  matchImages: ["127.0.0.1:1/private"]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes:
    serviceAccountTokenAudience: `+audience+`
    cacheType: ServiceAccount
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [example.com/role]
`), 0o600))
	return []string{"--image-credential-provider-config=" + config, "--image-credential-provider-bin-dir=" + dir}, notes
}

// mayAskForAudience lets nodes request tokens for the audience, which an administrator has to do.
func mayAskForAudience(t *testing.T, w *world) {
	t.Helper()
	rbac := w.Client.RbacV1()
	name := metav1.ObjectMeta{Name: "registry-tokens"}
	_, err := rbac.ClusterRoles().Create(w.ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"request-serviceaccounts-token-audience"}, APIGroups: []string{""},
		Resources: []string{audience}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.ClusterRoleBindings().
		Create(w.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: name,
			Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:nodes"}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}},
			metav1.CreateOptions{})
	must(t, err)
}

// testCredentialTokens: a plugin is given a token of the pod's service account, for the configured audience and bound
// to the pod, and the account's annotation that the configuration requires. It is not asked for a pod whose account
// lacks the annotation. Our kubelet and upstream's give the plugin the same request.
func testCredentialTokens(t *testing.T, w *world) {
	mayAskForAudience(t, w)
	accounts := w.Client.CoreV1().ServiceAccounts(namespace)
	puller, err := accounts.Create(w.ctx,
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "puller",
			Annotations: map[string]string{"example.com/role": "reader", "other": "x"}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = accounts.Create(w.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		metav1.CreateOptions{})
	must(t, err)
	defer func() {
		w.kubelet.Stop()
		w.KubeletFlags = nil
		w.startKubelet()
	}()

	for _, upstream := range []bool{false, true} {
		w.kubelet.Stop()
		var notes string
		w.KubeletFlags, notes = writeCredentialPlugin(t)
		w.kubelet, err = w.StartKubelet(w.ctx, node, upstream)
		must(t, err)
		prefix := fmt.Sprintf("private-%v-", upstream)
		pod := func(account string) *v1.Pod {
			p := newPod(prefix+account, "true")
			p.Spec.ServiceAccountName, p.Spec.Containers[0].Image = account, "127.0.0.1:1/private/app:1"
			return w.create(t, p)
		}

		pod("plain")
		w.until(t, 30*time.Second, prefix+"plain", waitsForImage)
		made := pod("puller")
		w.until(t, 30*time.Second, prefix+"puller", waitsForImage)
		var asked []pluginv1.CredentialProviderRequest
		must(t, wait.For(w.ctx, 10*time.Second, "the plugin to be asked", func(context.Context) error {
			asked, err = readRequests(notes)
			if err == nil && len(asked) == 0 {
				err = fmt.Errorf("it was not")
			}
			return err
		}))
		first := asked[0]
		if fmt.Sprint(first.ServiceAccountAnnotations) != "map[example.com/role:reader]" ||
			first.Image != "127.0.0.1:1/private/app" {
			t.Errorf("upstream %v: the plugin was asked for %s with %v", upstream, first.Image,
				first.ServiceAccountAnnotations)
		}
		review, err := w.Client.AuthenticationV1().TokenReviews().
			Create(w.ctx,
				&authv1.TokenReview{Spec: authv1.TokenReviewSpec{Token: first.ServiceAccountToken,
					Audiences: []string{audience}}}, metav1.CreateOptions{})
		must(t, err)
		if u := review.Status.User; !review.Status.Authenticated || u.UID != string(puller.UID) ||
			fmt.Sprint(u.Extra["authentication.kubernetes.io/pod-uid"]) != fmt.Sprintf("[%s]", made.UID) {
			t.Errorf("upstream %v: the token is of %+v, %s", upstream, u, review.Status.Error)
		}

		w.remove(t, prefix+"plain", nil)
		w.remove(t, prefix+"puller", nil)
		w.untilGone(t, prefix+"plain")
		w.untilGone(t, prefix+"puller")
	}
}

// waitsForImage returns nil if a container waits because its image could not be pulled, and otherwise the state of the
// containers.
func waitsForImage(p *v1.Pod) error {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting != nil && strings.Contains(c.State.Waiting.Reason, "ImagePull") {
			return nil
		}
	}
	return fmt.Errorf("its containers are %+v", p.Status.ContainerStatuses)
}

// readRequests reads the plugin's notes, a request a line.
func readRequests(path string) (out []pluginv1.CredentialProviderRequest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var r pluginv1.CredentialProviderRequest
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
