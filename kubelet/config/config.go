// Package config reads the kubelet's configuration: a KubeletConfiguration file, drop-ins beside it, and flags over both.
// What they leave out gets upstream's defaults, and what cannot work is refused in upstream's words.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Source says where the configuration comes from.
type Source struct {
	// File is a KubeletConfiguration; "" gives the defaults.
	File string
	// Dir holds drop-ins, files named *.conf, that are laid over File in the order of their names; "" for none.
	Dir string
	// Windows chooses the defaults of that system.
	Windows bool
	// Flags go over everything; may be nil.
	Flags *Flags
}

// Load reads and checks the configuration. Fields that nobody knows, and settings that mean nothing here, come back as
// warnings, one text each.
func Load(s Source) (cfg *v1beta1.KubeletConfiguration, warnings []string, err error) {
	cfg = &v1beta1.KubeletConfiguration{}
	text, warnings, err := gather(s)
	if err != nil {
		return nil, nil, err
	}
	if text != nil {
		strict, err := strictjson.UnmarshalStrict(text, cfg)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the kubelet's configuration %s: %w", s.File, err)
		}
		for _, w := range strict {
			warnings = append(warnings, w.Error())
		}
	}
	if s.Flags != nil {
		if err := s.Flags.apply(cfg); err != nil {
			return nil, warnings, err
		}
	}
	setDefaults(cfg, s.Windows)
	more, err := check(cfg, s.Windows)
	return cfg, append(warnings, more...), err
}

// gather reads the file and lays the drop-ins over it; nil when there is neither.
func gather(s Source) (text []byte, warnings []string, err error) {
	var paths []string
	if s.File != "" {
		paths = append(paths, s.File)
	}
	if s.Dir != "" {
		dropIns, err := dropIns(s.Dir)
		if err != nil {
			return nil, nil, err
		}
		paths = append(paths, dropIns...)
	}
	var all map[string]any
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the kubelet's configuration: %w", err)
		}
		var one map[string]any
		text, one, err = object(data)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the kubelet's configuration %s: %w", path, err)
		}
		if _, err := yaml.YAMLToJSONStrict(data); err != nil { // a field that is there twice: the last counts
			warnings = append(warnings, err.Error())
		}
		all = lay(all, one)
	}
	if len(paths) > 1 {
		text, err = json.Marshal(all)
	}
	return text, warnings, err
}

func dropIns(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("listing the kubelet's configuration drop-ins: %w", err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".conf") {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}

// object reads one file, which must be a KubeletConfiguration.
func object(data []byte) (text []byte, fields map[string]any, err error) {
	if text, err = yaml.YAMLToJSON(data); err != nil { // names the line of a mistake
		return nil, nil, err
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, nil, err
	}
	if kind.Kind != "KubeletConfiguration" || kind.APIVersion != v1beta1.SchemeGroupVersion.String() {
		return nil, nil, fmt.Errorf("it is a %q of %q, not a KubeletConfiguration of %s", kind.Kind, kind.APIVersion, v1beta1.SchemeGroupVersion)
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, nil, err
	}
	if fields == nil {
		return nil, nil, errors.New("it is empty")
	}
	return text, fields, nil
}

// lay puts over on top of base: objects are merged, everything else is replaced, and null takes away. Neither changes.
func lay(base, over map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range over {
		switch v := v.(type) {
		case nil:
			delete(out, k)
		case map[string]any:
			below, _ := out[k].(map[string]any)
			out[k] = lay(below, v)
		default:
			out[k] = v
		}
	}
	return out
}
