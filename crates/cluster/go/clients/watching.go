package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

// seen counts what an informer tells.
type seen struct {
	sync.Mutex
	added, updated, deleted map[string]int
}

func (s *seen) handler() cache.ResourceEventHandlerFuncs {
	count := func(into map[string]int, object any) {
		s.Lock()
		defer s.Unlock()
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			into[key]++
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { count(s.added, object) },
		UpdateFunc: func(_, object any) { count(s.updated, object) },
		DeleteFunc: func(object any) { count(s.deleted, object) },
	}
}

func (s *seen) counts() (int, int, int) {
	s.Lock()
	defer s.Unlock()
	return len(s.added), len(s.updated), len(s.deleted)
}

func informerSeesChanges(ctx context.Context, at place) error {
	maps := at.client.CoreV1().ConfigMaps(at.namespace)
	for i := range 20 {
		if _, err := maps.Create(ctx, configMap(fmt.Sprintf("before-%d", i), "1"), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own := informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name!=kube-root-ca.crt" })
	factory := informers.NewSharedInformerFactoryWithOptions(at.client, 0, informers.WithNamespace(at.namespace), own)
	informer := factory.Core().V1().ConfigMaps().Informer()
	told := &seen{added: map[string]int{}, updated: map[string]int{}, deleted: map[string]int{}}
	if _, err := informer.AddEventHandler(told.handler()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("the informer did not sync")
	}
	if err := expect("what was there", len(factory.Core().V1().ConfigMaps().Informer().GetStore().List()), 20); err != nil {
		return err
	}
	for i := range 20 {
		if _, err := maps.Create(ctx, configMap(fmt.Sprintf("after-%d", i), "1"), metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := maps.Update(ctx, configMap(fmt.Sprintf("before-%d", i), "2"), metav1.UpdateOptions{}); err != nil {
			return err
		}
		if err := maps.Delete(ctx, fmt.Sprintf("after-%d", i), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return eventually(ctx, "every change was told", func() (bool, error) {
		added, updated, deleted := told.counts()
		return added == 40 && updated == 20 && deleted == 20, nil
	})
}

func metadataInformer(ctx context.Context, at place) error {
	if _, err := at.client.CoreV1().ConfigMaps(at.namespace).Create(ctx, configMap("a", "1"), metav1.CreateOptions{}); err != nil {
		return err
	}
	only, err := metadata.NewForConfig(at.config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	factory := metadatainformer.NewFilteredSharedInformerFactory(only, 0, at.namespace, func(options *metav1.ListOptions) {
		options.FieldSelector = "metadata.name=a"
	})
	informer := factory.ForResource(resource)
	go informer.Informer().Run(ctx.Done())
	return eventually(ctx, "the metadata arrives", func() (bool, error) {
		objects, err := informer.Lister().List(everything)
		if err != nil || len(objects) != 1 {
			return false, err
		}
		partial, ok := objects[0].(*metav1.PartialObjectMetadata)
		return ok && partial.Name == "a" && partial.UID != "", nil
	})
}

func paging(ctx context.Context, at place) error {
	for i := range 25 {
		made := configMap(fmt.Sprintf("page-%02d", i), "1")
		made.Labels = map[string]string{"paged": "true"}
		if _, err := at.client.CoreV1().ConfigMaps(at.namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	pages := 0
	list := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return at.client.CoreV1().ConfigMaps(at.namespace).List(ctx, options)
	}))
	list.PageSize = 10
	names := map[string]bool{}
	if err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: "paged=true"}, func(object runtime.Object) error {
		names[object.(*corev1.ConfigMap).Name] = true
		return nil
	}); err != nil {
		return err
	}
	return errors.Join(expect("what was visited", len(names), 25), expect("pages", pages, 3))
}
