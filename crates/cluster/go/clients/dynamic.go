package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
)

var everything = labels.Everything()

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gears       = schema.GroupVersionResource{Group: "clients.example.com", Version: "v1", Resource: "gears"}
)

func definition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gears.clients.example.com"},
		"spec": map[string]any{
			"group": "clients.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object",
					"properties": map[string]any{
						"spec":   map[string]any{"type": "object", "properties": map[string]any{"teeth": map[string]any{"type": "integer", "minimum": int64(3)}}},
						"status": map[string]any{"type": "object", "properties": map[string]any{"turns": map[string]any{"type": "integer"}}},
					},
				}},
			}},
		},
	}}
}

func gear(name string, teeth int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clients.example.com/v1", "kind": "Gear",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"teeth": teeth},
	}}
}

func dynamicClient(ctx context.Context, at place) error {
	client, err := dynamic.NewForConfig(at.config)
	if err != nil {
		return err
	}
	if _, err := client.Resource(definitions).Create(ctx, definition(), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the definition is served", func() (bool, error) {
		_, err := client.Resource(gears).Namespace(at.namespace).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, at.namespace, nil)
	informer := factory.ForResource(gears)
	go informer.Informer().Run(ctx.Done())
	if _, err := client.Resource(gears).Namespace(at.namespace).Create(ctx, gear("a", 12), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := client.Resource(gears).Namespace(at.namespace).Create(ctx, gear("b", 1), metav1.CreateOptions{}); err == nil {
		return errors.New("a gear with one tooth was accepted")
	}
	status := []byte(`{"status":{"turns":7},"spec":{"teeth":99}}`)
	after, err := client.Resource(gears).Namespace(at.namespace).Patch(ctx, "a", types.MergePatchType, status, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	turns, _, _ := unstructured.NestedInt64(after.Object, "status", "turns")
	teeth, _, _ := unstructured.NestedInt64(after.Object, "spec", "teeth")
	if err := errors.Join(expect("turns", turns, 7), expect("teeth", teeth, 12)); err != nil {
		return err
	}
	return eventually(ctx, "the informer saw the status", func() (bool, error) {
		objects, err := informer.Lister().List(everything)
		if err != nil || len(objects) != 1 {
			return false, err
		}
		turns, _, _ := unstructured.NestedInt64(objects[0].(*unstructured.Unstructured).Object, "status", "turns")
		return turns == 7, nil
	})
}

func serverSideApply(ctx context.Context, at place) error {
	apply := func(manager, key, value string, force bool) error {
		wanted := corev1ac.ConfigMap("applied", at.namespace).WithData(map[string]string{key: value})
		_, err := at.client.CoreV1().ConfigMaps(at.namespace).Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
		return err
	}
	if err := errors.Join(apply("one", "a", "1", false), apply("two", "b", "2", false)); err != nil {
		return err
	}
	conflict := apply("two", "a", "3", false)
	if conflict == nil {
		return errors.New("another manager's field was taken without force")
	}
	if err := apply("two", "a", "3", true); err != nil {
		return err
	}
	result, err := at.client.CoreV1().ConfigMaps(at.namespace).Get(ctx, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	extracted, err := corev1ac.ExtractConfigMap(result, "two")
	if err != nil {
		return err
	}
	return errors.Join(
		expect("the data", fmt.Sprint(result.Data), "map[a:3]"),
		expect("what two owns", fmt.Sprint(extracted.Data), "map[a:3]"),
	)
}

func discoveryAndOpenAPI(ctx context.Context, at place) error {
	client, err := discovery.NewDiscoveryClientForConfig(at.config)
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil {
		return err
	}
	document, err := client.OpenAPISchema()
	if err != nil {
		return err
	}
	found := 0
	for _, named := range document.GetDefinitions().GetAdditionalProperties() {
		if named.GetName() == "io.k8s.api.core.v1.Pod" || named.GetName() == "com.example.clients.v1.Gear" {
			found++
		}
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	_, served := paths["apis/apps/v1"]
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	return errors.Join(
		expect("deployments", mapping.Resource.Resource, "deployments"),
		expect("definitions found in the OpenAPI document", found, 2),
		expect("apps/v1 among the paths", served, true),
		expect("the major version", version.Major, "1"),
	)
}
