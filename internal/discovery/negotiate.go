package discovery

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

var aggregatedKind = apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")

var mediaTypes = newMediaTypes()

func newMediaTypes() []runtime.SerializerInfo {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	if err := apidiscoveryv2.AddToScheme(s); err != nil {
		panic(err) // can only happen with a version of Kubernetes' libraries whose scheme lacks the type
	}
	return serializer.NewCodecFactory(s).SupportedMediaTypes()
}

type accepted struct {
	runtime.SerializerInfo
	// aggregated is true if the client accepts an APIGroupDiscoveryList, the aggregated discovery document.
	aggregated bool
}

// negotiate returns the first supported media type in the Accept header, as package negotiation of k8s.io/apiserver
// does. It returns false if no media type is supported. mayAggregate is true if the path has an aggregated document.
func negotiate(r *http.Request, mayAggregate bool) (accepted, bool) {
	a, ok := match(r.Header.Get("Accept"), mayAggregate)
	if ok && a.PrettySerializer != nil && isPretty(r) {
		a.Serializer = a.PrettySerializer
	}
	return a, ok
}

func match(accept string, mayAggregate bool) (accepted, bool) {
	if accept == "" {
		return accepted{SerializerInfo: mediaTypes[0]}, true
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, has := range mediaTypes {
			isType := clause.Type == has.MediaTypeType && (clause.SubType == has.MediaTypeSubType || clause.SubType == "*")
			if !isType && (clause.Type != "*" || clause.SubType != "*") {
				continue
			}
			p := clause.Params
			asked := schema.GroupVersionKind{Group: p["g"], Version: p["v"], Kind: p["as"]}
			switch {
			case p["stream"] != "" && p["stream"] != "watch", p["sv"] != "":
				continue
			case asked.Empty():
			case !mayAggregate || asked != aggregatedKind:
				continue
			}
			if p["pretty"] == "1" && has.PrettySerializer != nil {
				has.Serializer = has.PrettySerializer
			}
			return accepted{has, !asked.Empty()}, true
		}
	}
	return accepted{}, false
}

// isPretty reports whether the answer is to be indented, because a person is likely to read it.
func isPretty(r *http.Request) bool {
	if asked := r.URL.Query().Get("pretty"); asked != "" {
		pretty, _ := strconv.ParseBool(asked)
		return pretty
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

func names() string {
	var all []string
	for _, m := range mediaTypes {
		all = append(all, m.MediaType)
	}
	return strings.Join(all, ", ")
}
