package credential

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	configv1 "k8s.io/kubelet/config/v1"
)

// cacheTypes are the ways to keep the answer of a plugin that gets tokens.
var cacheTypes = []configv1.ServiceAccountTokenCacheType{configv1.ServiceAccountServiceAccountTokenCacheType,
	configv1.TokenServiceAccountTokenCacheType}

// tokenMistakes returns what is wrong with a provider's tokenAttributes, with upstream's words
// (pkg/credentialprovider/plugin/config.go).
func tokenMistakes(p configv1.CredentialProvider) (out []string) {
	a := p.TokenAttributes
	if a == nil {
		return nil
	}
	refuse := func(bad bool, text string) {
		if bad {
			out = append(out, "tokenAttributes: "+text)
		}
	}
	refuse(a.ServiceAccountTokenAudience == "", "serviceAccountTokenAudience is required")
	refuse(a.RequireServiceAccount == nil, "requireServiceAccount is required")
	refuse(p.APIVersion != versions[0], "tokenAttributes is only supported for "+versions[0]+" API version")
	refuse(a.RequireServiceAccount != nil && !*a.RequireServiceAccount &&
		len(a.RequiredServiceAccountAnnotationKeys) > 0,
		"requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set")
	refuse(a.CacheType == "",
		fmt.Sprintf("cacheType is required to be set when tokenAttributes is specified. Supported values are: %v",
			cacheTypes))
	refuse(a.CacheType != "" && !slices.Contains(cacheTypes, a.CacheType),
		fmt.Sprintf("cacheType %q is not one of %v", a.CacheType, cacheTypes))

	seen := map[string]bool{}
	for _, keys := range [][]string{a.RequiredServiceAccountAnnotationKeys, a.OptionalServiceAccountAnnotationKeys} {
		own := map[string]bool{}
		for _, k := range keys {
			for _, mistake := range validation.IsQualifiedName(strings.ToLower(k)) {
				refuse(true, fmt.Sprintf("annotation key %q: %s", k, mistake))
			}
			refuse(own[k], fmt.Sprintf("annotation key %q is there twice", k))
			refuse(seen[k] && !own[k],
				fmt.Sprintf("annotation key %q: annotation keys cannot be both required and optional", k))
			own[k] = true
		}
		for k := range own {
			seen[k] = true
		}
	}
	return out
}
