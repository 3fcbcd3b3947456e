// Package config reads the kubelet's configuration: a KubeletConfiguration file, drop-ins beside it, and flags over
// both. Fields that none of them sets get upstream's defaults. Settings that cannot work are refused with upstream's
// texts.
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
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/internal/strictjson"
)

// Source says where the configuration comes from.
type Source struct {
	// File is a KubeletConfiguration; "" gives the defaults.
	File string
	// Dir holds drop-ins, files named *.conf, which are merged over File in the order of their names; "" for none.
	Dir string
	// Windows selects the defaults and checks of a Windows node; else those of Linux apply.
	Windows bool
	// Flags override everything else; may be nil.
	Flags *Flags
}

// Load reads and checks the configuration. Unknown fields, and settings without effect on this system, are returned as
// warnings, one text each.
func Load(s Source) (cfg *v1beta1.KubeletConfiguration, warnings []string, err error) {
	cfg = &v1beta1.KubeletConfiguration{}
	text, warnings, err := gather(s)
	if err != nil {
		return nil, nil, err
	}
	if text != nil {
		mistakes, err := strictjson.Unmarshal(text, cfg)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the kubelet's configuration %s: %w", s.File, err)
		}
		warnings = append(warnings, mistakes...)
	}

	if err := resolvePaths(cfg, s); err != nil {
		return nil, warnings, err
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

// resolvePaths makes the paths of the configuration absolute. As with upstream's kubelet
// (KubeletConfigurationPathRefs), a relative path is relative to the folder of the file. The working folder would not
// do: that of a Windows service is C:\Windows\System32. Paths of flags, which are applied later, are relative to the
// working folder.
func resolvePaths(cfg *v1beta1.KubeletConfiguration, s Source) error {
	paths := []*string{&cfg.StaticPodPath, &cfg.Authentication.X509.ClientCAFile, &cfg.TLSCertFile,
		&cfg.TLSPrivateKeyFile, &cfg.VolumePluginDir, &cfg.PodLogsDir}
	if cfg.ResolverConfig != nil && (!s.Windows || *cfg.ResolverConfig != systemDNS) {
		paths = append(paths, cfg.ResolverConfig)
	}

	folder := s.Dir
	if s.File != "" {
		folder = filepath.Dir(s.File)
	}
	for _, p := range paths {
		if *p == "" || isAbsolute(*p) {
			continue
		}
		full, err := filepath.Abs(filepath.Join(folder, *p))
		if err != nil {
			return fmt.Errorf("finding %s of the kubelet's configuration: %w", *p, err)
		}
		*p = full
	}
	return nil
}

// systemDNS, in place of a file name, means the DNS settings of the Windows node itself (upstream's hostResolvConf).
const systemDNS = "Host"

// isAbsolute reports whether a path is independent of the working folder. On Windows this includes paths that begin
// with a slash, as configurations made for Linux have them: they begin at the root of the current disk.
func isAbsolute(p string) bool { return filepath.IsAbs(p) || os.IsPathSeparator(p[0]) }

// gather returns the file, with the drop-ins merged over it, as JSON. It returns nil if neither is given.
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
		if _, err := yaml.YAMLToJSONStrict(data); err != nil { // a field is there twice: the last one counts
			warnings = append(warnings, err.Error())
		}
		all = merge(all, one)
	}

	if len(paths) > 1 {
		text, err = json.Marshal(all)
	}
	return text, warnings, err
}

// dropIns returns the paths of the drop-ins in dir, sorted by name.
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

// object returns a file, which must be a KubeletConfiguration, as JSON text and as fields.
func object(data []byte) (text []byte, fields map[string]any, err error) {
	if text, err = yaml.YAMLToJSON(data); err != nil { // names the line of a mistake
		return nil, nil, err
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, nil, err
	}
	if kind.Kind != "KubeletConfiguration" || kind.APIVersion != v1beta1.SchemeGroupVersion.String() {
		return nil, nil, fmt.Errorf("it is a %q of %q, not a KubeletConfiguration of %s", kind.Kind, kind.APIVersion,
			v1beta1.SchemeGroupVersion)
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, nil, err
	}
	if fields == nil {
		return nil, nil, errors.New("it is empty")
	}
	return text, fields, nil
}

// merge returns base with the fields of over: objects are merged, everything else is replaced, and null deletes a
// field. It changes neither argument.
func merge(base, over map[string]any) map[string]any {
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
			out[k] = merge(below, v)
		default:
			out[k] = v
		}
	}
	return out
}
