package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
)

type cfg = v1beta1.KubeletConfiguration

// Flags are the command line flags that set fields of the configuration, under upstream's names. They override the
// file, although it is read after them.
type Flags struct{ given []*setting }

// setting is one flag. Its texts are kept as given, because the file is read after the command line.
type setting struct {
	name, kind string
	set        func(c *cfg, text string) error
	texts      []string
	flags      *Flags
}

// String returns the texts given so far. Help shows no default: the configuration file has it.
func (s *setting) String() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.texts, ",")
}

// Type returns the word that help shows for the value.
func (s *setting) Type() string { return s.kind }

// Set keeps text if the field can have it.
func (s *setting) Set(text string) error {
	if err := s.set(&cfg{}, text); err != nil {
		return err
	}
	if len(s.texts) == 0 {
		s.flags.given = append(s.flags.given, s)
	}
	s.texts = append(s.texts, text)
	return nil
}

// apply sets the fields of all flags that were given.
func (f *Flags) apply(c *cfg) error {
	for _, s := range f.given {
		for i, text := range s.texts {
			if i == 0 {
				s.clear(c)
			}
			if err := s.set(c, text); err != nil {
				return fmt.Errorf("--%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// clear empties the list or map of a flag before its first text is applied: a flag replaces what the file says, and
// further texts of the same flag add to it. Maps that are not here are merged with the file's.
func (s *setting) clear(c *cfg) {
	switch s.name {
	case "cluster-dns":
		c.ClusterDNS = nil
	case "register-with-taints":
		c.RegisterWithTaints = nil
	case "tls-cipher-suites":
		c.TLSCipherSuites = nil
	case "enforce-node-allocatable":
		c.EnforceNodeAllocatable = nil
	case "allowed-unsafe-sysctls":
		c.AllowedUnsafeSysctls = nil

	case "eviction-hard":
		c.EvictionHard = map[string]string{} // not nil, which would mean the defaults
	case "eviction-soft":
		c.EvictionSoft = nil
	case "eviction-soft-grace-period":
		c.EvictionSoftGracePeriod = nil
	case "eviction-minimum-reclaim":
		c.EvictionMinimumReclaim = nil

	case "system-reserved":
		c.SystemReserved = nil
	case "kube-reserved":
		c.KubeReserved = nil
	case "manifest-url-header":
		c.StaticPodURLHeader = nil
	}
}

// AddFlags adds all flags to fs. The Flags that it returns are for Source, once fs was parsed.
func AddFlags(fs *pflag.FlagSet) *Flags {
	f := &Flags{}
	add := func(name, kind string, set func(*cfg, string) error) {
		fs.Var(&setting{name: name, kind: kind, set: set, flags: f}, name,
			"sets the field of the same meaning in the configuration file")
		if kind == "bool" {
			fs.Lookup(name).NoOptDefVal = "true"
		}
	}

	for name, at := range texts {
		add(name, "string", func(c *cfg, v string) error { *at(c) = v; return nil })
	}
	addNumbers(add)
	for name, at := range switches {
		add(name, "bool", func(c *cfg, v string) error {
			b, err := strconv.ParseBool(v)
			at(c, b)
			return err
		})
	}
	for name, at := range durations {
		add(name, "duration", func(c *cfg, v string) error {
			d, err := time.ParseDuration(v)
			at(c, d)
			return err
		})
	}

	for name, at := range lists {
		add(name, "strings", func(c *cfg, v string) error {
			for _, s := range strings.Split(v, ",") {
				if s != "" {
					*at(c) = append(*at(c), s)
				}
			}
			return nil
		})
	}
	for name, m := range maps {
		add(name, "mapStringString", func(c *cfg, v string) error { return addPairs(m.at(c), v, m.sign) })
	}

	add("authorization-mode", "string", func(c *cfg, v string) error {
		c.Authorization.Mode = v1beta1.KubeletAuthorizationMode(v)
		return nil
	})
	add("feature-gates", "mapStringBool", setGates)
	add("register-with-taints", "taints", setTaints)
	add("manifest-url-header", "colonSeparatedMultimapStringString", setHeader)
	add("resolv-conf", "string", func(c *cfg, v string) error { c.ResolverConfig = &v; return nil })
	return f
}

// addNumbers adds the flags whose value is a whole number. They accept the prefixes 0x, 0o, 0b, as upstream's flags
// do. A number that does not fit its field is an error.
func addNumbers(add func(name, kind string, set func(*cfg, string) error)) {
	for name, at := range numbers {
		add(name, "int32", func(c *cfg, v string) error {
			n, err := strconv.ParseInt(v, 0, 32)
			*at(c) = int32(n)
			return err
		})
	}
	for name, at := range optionalNumbers {
		add(name, "int32", func(c *cfg, v string) error {
			n, err := strconv.ParseInt(v, 0, 32)
			value := int32(n)
			*at(c) = &value
			return err
		})
	}
	for name, at := range longNumbers {
		add(name, "int", func(c *cfg, v string) (err error) {
			n, err := strconv.ParseInt(v, 0, 64)
			at(c, n)
			return err
		})
	}
}

// addPairs adds the pairs in text, which are separated by commas. sign stands between key and value.
func addPairs(to *map[string]string, text, sign string) error {
	if *to == nil {
		*to = map[string]string{}
	}
	for _, pair := range strings.Split(text, ",") {
		if pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, sign)
		if !ok {
			return fmt.Errorf("malformed pair, expect string%sstring, not %q", sign, pair)
		}
		(*to)[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return nil
}

// setGates adds feature gates to those of the configuration file. A gate that both name gets the value of the flag.
func setGates(c *cfg, text string) error {
	pairs := map[string]string{}
	if err := addPairs(&pairs, text, "="); err != nil {
		return err
	}
	if c.FeatureGates == nil {
		c.FeatureGates = map[string]bool{}
	}
	for name, value := range pairs {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("invalid value of %s: %s, err: %w", name, value, err)
		}
		c.FeatureGates[name] = on
	}
	return nil
}

// setTaints adds the taints of a list like key=value:effect,key:effect. A repeated flag adds to the first; clear has
// removed those of the configuration file.
func setTaints(c *cfg, text string) error {
	for _, s := range strings.Split(text, ",") {
		if s == "" {
			continue
		}
		pair, effect, ok := strings.Cut(s, ":")
		k, v, _ := strings.Cut(pair, "=")
		t := v1.Taint{Key: k, Value: v, Effect: v1.TaintEffect(effect)}
		if !ok {
			return fmt.Errorf("%q is not key=value:effect", s)
		}
		if err := Taint(t); err != nil {
			return fmt.Errorf("%q is not key=value:effect: %w", s, err)
		}
		c.RegisterWithTaints = append(c.RegisterWithTaints, t)
	}
	return nil
}

// setHeader adds the headers of a list like name:value,name:value. A name may occur more than once: then the request
// carries all its values. As with taints, those of the configuration file are gone.
func setHeader(c *cfg, text string) error {
	if c.StaticPodURLHeader == nil {
		c.StaticPodURLHeader = map[string][]string{}
	}
	for _, s := range strings.Split(text, ",") {
		if s == "" {
			continue
		}
		k, v, ok := strings.Cut(s, ":")
		if !ok {
			return fmt.Errorf("malformed pair, expect string:string, not %q", s)
		}
		c.StaticPodURLHeader[k] = append(c.StaticPodURLHeader[k], v)
	}
	return nil
}
