// Prints Kubernetes' built-in types as JSON: kinds, messages and their fields, read from the Go types by reflection.
// `cargo xtask generate wire` turns it into static tables.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type Kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

type Message struct {
	// The package's path and the type's name.
	Name   string  `json:"name"`
	Fields []Field `json:"fields"`
}

type Field struct {
	// Empty when the fields of the message stand in the object itself.
	JSON          string `json:"json"`
	Number        int    `json:"number"`
	Type          string `json:"type"`
	Shape         string `json:"shape"`
	Pointer       bool   `json:"pointer"`
	OmitEmpty     bool   `json:"omitEmpty"`
	OmitZero      bool   `json:"omitZero"`
	PatchMergeKey string `json:"patchMergeKey"`
	PatchStrategy string `json:"patchStrategy"`
	// The type as Go's decoder names it in errors; the second one is an item's.
	Go     string `json:"go"`
	GoItem string `json:"goItem"`
}

// Types that have a JSON form of their own.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "IntOrString",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "MicroTime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "FieldsV1",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "RawExtension",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "Json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrArray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Verbs":                                            "Strings",
	"k8s.io/api/authentication/v1.ExtraValue":                                               "Strings",
	"k8s.io/api/authorization/v1.ExtraValue":                                                "Strings",
}

type walker struct {
	messages map[string]*Message
}

func nameOf(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// The name of a single value's type, which is walked if it is a message.
func (w *walker) single(t reflect.Type) string {
	if name, ok := special[nameOf(t)]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.String:
		return "String"
	case reflect.Bool:
		return "Bool"
	case reflect.Int32:
		return "Int32"
	case reflect.Int64:
		return "Int64"
	case reflect.Float64:
		return "Double"
	case reflect.Interface:
		return "Any"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "Bytes"
		}
	case reflect.Struct:
		w.message(t)
		return nameOf(t)
	}
	panic("no name for " + t.String())
}

func deref(t reflect.Type) (reflect.Type, bool) {
	if t.Kind() == reflect.Pointer {
		return t.Elem(), true
	}
	return t, false
}

func (w *walker) field(f reflect.StructField) Field {
	tag := strings.Split(f.Tag.Get("json"), ",")
	field := Field{JSON: tag[0], PatchMergeKey: f.Tag.Get("patchMergeKey"), PatchStrategy: f.Tag.Get("patchStrategy")}
	for _, option := range tag[1:] {
		field.OmitEmpty = field.OmitEmpty || option == "omitempty"
		field.OmitZero = field.OmitZero || option == "omitzero"
	}
	if proto := strings.Split(f.Tag.Get("protobuf"), ","); len(proto) > 1 {
		number, err := strconv.Atoi(proto[1])
		if err != nil {
			panic(err)
		}
		field.Number = number
	}
	t, pointer := deref(f.Type)
	field.Pointer = pointer
	field.Go = t.String()
	_, known := special[nameOf(t)]
	switch {
	case !known && t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		item, _ := deref(t.Elem())
		field.Shape, field.Type, field.GoItem = "List", w.single(item), item.String()
	case !known && t.Kind() == reflect.Map:
		item, _ := deref(t.Elem())
		field.Shape, field.GoItem = "Map", item.String()
		if item.Kind() == reflect.Slice && item.Elem().Kind() == reflect.String {
			// A named list of strings.
			field.Type = "Strings"
		} else {
			field.Type = w.single(item)
		}
	default:
		field.Shape, field.Type = "Single", w.single(t)
	}
	return field
}

func (w *walker) message(t reflect.Type) {
	name := nameOf(t)
	if w.messages[name] != nil {
		return
	}
	message := &Message{Name: name}
	w.messages[name] = message
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		message.Fields = append(message.Fields, w.field(f))
	}
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistration.AddToScheme, apidiscovery.AddToScheme, apps.AddToScheme, authentication.AddToScheme,
		authorization.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batch.AddToScheme,
		certificates.AddToScheme, coordination.AddToScheme, core.AddToScheme, discovery.AddToScheme, events.AddToScheme,
		networking.AddToScheme, node.AddToScheme, policy.AddToScheme, rbac.AddToScheme, scheduling.AddToScheme,
		storage.AddToScheme, apiextensions.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	w := walker{messages: map[string]*Message{}}
	kinds := []Kind{}
	add := func(gvk schema.GroupVersionKind, t reflect.Type) {
		w.message(t)
		kinds = append(kinds, Kind{gvk.Group, gvk.Version, gvk.Kind, nameOf(t)})
	}
	for gvk, t := range scheme.AllKnownTypes() {
		// Every group also registers what all have in common; it is listed once, below.
		if !strings.Contains(t.PkgPath(), "/apis/meta/") && gvk.Version != runtime.APIVersionInternal {
			add(gvk, t)
		}
	}
	// Bodies and answers of any group. The older ones are of version v1 without a group.
	for _, object := range []any{
		meta.Status{}, meta.APIVersions{}, meta.APIGroup{}, meta.APIGroupList{}, meta.APIResourceList{},
		meta.DeleteOptions{}, meta.WatchEvent{}, meta.PartialObjectMetadata{}, meta.PartialObjectMetadataList{},
		meta.Table{},
	} {
		t := reflect.TypeOf(object)
		gvk := schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: t.Name()}
		add(gvk, t)
	}
	messages := []*Message{}
	for _, message := range w.messages {
		messages = append(messages, message)
	}
	sort.Slice(messages, func(i, j int) bool { return messages[i].Name < messages[j].Name })
	sort.Slice(kinds, func(i, j int) bool {
		a, b := kinds[i], kinds[j]
		return a.Group+"/"+a.Version+"/"+a.Kind < b.Group+"/"+b.Version+"/"+b.Kind
	})
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"kinds": kinds, "messages": messages}); err != nil {
		panic(err)
	}
}
