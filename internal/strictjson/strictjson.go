// Package strictjson reads objects of Kubernetes' API from JSON and says which of their fields are mistakes. It uses
// apimachinery only, so that packages may use it that must not reach Kubernetes' client.
package strictjson

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// noTypes makes the decoder fill the object that it is given, whatever kind the text names: the caller has compared
// that.
var noTypes = runtime.NewScheme()

var decoder = json.NewSerializerWithOptions(json.DefaultMetaFactory, noTypes, noTypes,
	json.SerializerOptions{Strict: true})

// Unmarshal fills into with what text says. Fields that do not exist, that are there twice or that differ in case have
// no effect; mistakes has a text for each, as the API server would word it. After an error into is undefined.
func Unmarshal(text []byte, into runtime.Object) (mistakes []string, err error) {
	_, _, err = decoder.Decode(text, nil, into)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return nil, err
	}
	for _, e := range strict.Errors() {
		mistakes = append(mistakes, e.Error())
	}
	return mistakes, nil
}
