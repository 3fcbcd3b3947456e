package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	configv1 "k8s.io/kubelet/config/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// runTimeout is upstream's time for an answer.
const runTimeout = time.Minute

// provider is one plugin.
type provider struct {
	config  configv1.CredentialProvider
	program string
}

// run asks the plugin for the logins of an image. The program, its arguments and its environment are the
// configuration's; what comes from a pod, the name of the image and a token of its account, is on its input only, in
// JSON.
func (p *provider) run(ctx context.Context, q question) (*pluginv1.CredentialProviderResponse, error) {
	question := pluginv1.CredentialProviderRequest{Image: q.image, ServiceAccountToken: q.token,
		ServiceAccountAnnotations: q.annotations}
	question.Kind = "CredentialProviderRequest"
	question.APIVersion = p.config.APIVersion
	in, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, p.program, p.config.Args...)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stdout = &out
	cmd.Stderr = &said
	cmd.Env = os.Environ()
	cmd.WaitDelay = time.Second // a child of the plugin may hold its output open
	for _, v := range p.config.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("error execing credential provider plugin %s for image %s: %w: %s", p.config.Name,
			q.image, err, tail(said.Bytes()))
	}

	var answer pluginv1.CredentialProviderResponse
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("reading the answer of credential provider plugin %s: %w", p.config.Name, err)
	}
	if answer.Kind != "CredentialProviderResponse" || answer.APIVersion != p.config.APIVersion {
		return nil,
			fmt.Errorf("credential provider plugin %s answers with %q of %q, want CredentialProviderResponse of %s",
				p.config.Name, answer.Kind, answer.APIVersion, p.config.APIVersion)
	}
	if !slices.Contains([]pluginv1.PluginCacheKeyType{pluginv1.ImagePluginCacheKeyType,
		pluginv1.RegistryPluginCacheKeyType, pluginv1.GlobalPluginCacheKeyType}, answer.CacheKeyType) {
		return nil, fmt.Errorf("credential provider plugin did not return a valid cacheKeyType: %q",
			answer.CacheKeyType)
	}
	return &answer, nil
}

// tail is the end of what a plugin said.
func tail(text []byte) []byte { return bytes.TrimSpace(text[max(0, len(text)-500):]) }
