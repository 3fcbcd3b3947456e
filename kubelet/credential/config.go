// Package credential asks programs of the node, credential provider plugins, for the logins of images
// (CredentialProviderConfig). Which programs there are, and for which images each is asked, is the node's
// configuration; a plugin gets the name of an image on its input. Rules and words are those of upstream's
// pkg/credentialprovider/plugin, 1.36.3.
package credential

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	configv1 "k8s.io/kubelet/config/v1"
	"sigs.k8s.io/yaml"
)

// versions are the versions of the plugins' own API; their forms are equal in what is used here.
var versions = []string{"credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1beta1",
	"credentialprovider.kubelet.k8s.io/v1alpha1"}

// configVersions are those of the configuration.
var configVersions = []string{"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1",
	"kubelet.config.k8s.io/v1alpha1"}

// Load reads the configuration, a file or a folder of files, and finds each program in dir. It returns an error for
// anything that upstream's kubelet refuses, and for tokens of service accounts, which this kubelet does not give to
// plugins.
func Load(path, dir string) (*Providers, error) {
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if files, err = configFiles(path); err != nil {
			return nil, err
		}
	}

	p := &Providers{cache: map[string]answer{}, flights: map[string]*flight{}, tokens: map[string]kept{}}
	var errs []error
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration of credential providers: %w", err)
		}
		list, err := parse(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("credential providers of %s: %w", file, err))
		}
		for _, c := range list {
			if slices.ContainsFunc(p.list, func(o *provider) bool { return o.config.Name == c.Name }) {
				errs = append(errs, fmt.Errorf("provider %s is there twice", c.Name))
			}
			program, err := findProgram(dir, c.Name)
			errs = append(errs, err)
			p.list = append(p.list, &provider{config: c, program: program})
		}
	}
	return p, errors.Join(errs...)
}

// configFiles returns the configurations of a folder in order.
func configFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the configurations of credential providers: %w", err)
	}
	var out []string
	for _, e := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}

// findProgram returns the path of a plugin; on Windows it may have .exe at its end.
func findProgram(dir, name string) (string, error) {
	for _, ending := range endings {
		path := filepath.Join(dir, name+ending)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	return "", fmt.Errorf("plugin binary executable %s did not exist", filepath.Join(dir, name))
}

// parse reads and checks one configuration.
func parse(data []byte) ([]configv1.CredentialProvider, error) {
	var c configv1.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, err
	}
	if c.Kind != "CredentialProviderConfig" || !slices.Contains(configVersions, c.APIVersion) {
		return nil, fmt.Errorf("%s of %s is not a CredentialProviderConfig of %s", c.Kind, c.APIVersion,
			configVersions[0])
	}

	var errs []error
	if len(c.Providers) == 0 {
		errs = append(errs, errors.New("at least 1 item in plugins is required"))
	}
	for _, p := range c.Providers {
		for _, mistake := range mistakes(p) {
			errs = append(errs, fmt.Errorf("provider %q: %s", p.Name, mistake))
		}
	}
	return c.Providers, errors.Join(errs...)
}

// mistakes lists what is wrong with a provider.
func mistakes(p configv1.CredentialProvider) (out []string) {
	refuse := func(bad bool, text string) {
		if bad {
			out = append(out, text)
		}
	}
	refuse(p.Name == "", "name is required")
	refuse(strings.ContainsAny(p.Name, `/\`), "name cannot contain path separators")
	refuse(strings.Contains(p.Name, " "), "name cannot contain spaces")
	refuse(p.Name == "." || p.Name == "..", "name cannot be '.' or '..'")
	refuse(len(p.MatchImages) == 0, "at least 1 item in matchImages is required")
	refuse(p.DefaultCacheDuration == nil, "defaultCacheDuration is required")
	refuse(p.DefaultCacheDuration != nil && p.DefaultCacheDuration.Duration < 0,
		"defaultCacheDuration must be greater than or equal to 0")
	refuse(!slices.Contains(versions, p.APIVersion),
		fmt.Sprintf("apiVersion %q is not one of %s", p.APIVersion, strings.Join(versions, ", ")))
	return append(out, tokenMistakes(p)...)
}
