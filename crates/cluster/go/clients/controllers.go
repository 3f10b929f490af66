package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-logr/logr"
)

func leaderElection(ctx context.Context, at place) error {
	var terms atomic.Int32
	candidate := func(ctx context.Context, name string) {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: at.namespace, Name: "leader"},
			Client:     at.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					terms.Add(1)
					<-ctx.Done()
				},
				OnStoppedLeading: func() {},
			},
		})
	}
	first, stopFirst := context.WithCancel(ctx)
	second, stopSecond := context.WithCancel(ctx)
	defer stopSecond()
	go candidate(first, "first")
	if err := eventually(ctx, "the first leads", func() (bool, error) { return terms.Load() == 1, nil }); err != nil {
		stopFirst()
		return err
	}
	go candidate(second, "second")
	stopFirst()
	if err := eventually(ctx, "the second takes over", func() (bool, error) { return terms.Load() == 2, nil }); err != nil {
		return err
	}
	lease, err := at.client.CoordinationV1().Leases(at.namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return errors.Join(expect("the leader", *lease.Spec.HolderIdentity, "second"), expect("changes of leader", *lease.Spec.LeaseTransitions, 1))
}

func events(ctx context.Context, at place) error {
	about, err := at.client.CoreV1().ConfigMaps(at.namespace).Create(ctx, configMap("about", "1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: at.client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "clients"})
	for range 3 {
		recorder.Event(about, corev1.EventTypeNormal, "Tested", "the same again")
	}
	if err := eventually(ctx, "the events are counted", func() (bool, error) {
		selector := "involvedObject.name=about,reason=Tested"
		list, err := at.client.CoreV1().Events(at.namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		return err == nil && len(list.Items) == 1 && list.Items[0].Count == 3, err
	}); err != nil {
		return err
	}
	list, err := at.client.EventsV1().Events(at.namespace).List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=about"})
	if err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("%d events in events.k8s.io", len(list.Items))
	}
	return errors.Join(expect("the note", list.Items[0].Note, "the same again"), expect("the count", list.Items[0].DeprecatedCount, 3))
}

// upper gives every ConfigMap that asks for it a Secret with its data in capitals.
type upper struct {
	client.Client
}

func (u *upper) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var from corev1.ConfigMap
	if err := u.Get(ctx, request.NamespacedName, &from); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if from.Labels["upper"] != "yes" {
		return ctrl.Result{}, nil
	}
	to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, u.Client, to, func() error {
		to.StringData = map[string]string{}
		for key, value := range from.Data {
			to.StringData[key] = strings.ToUpper(value)
		}
		return controllerutil.SetControllerReference(&from, to, u.Scheme())
	})
	return ctrl.Result{}, err
}

func controller(ctx context.Context, at place) error {
	ctrllog.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	known := runtime.NewScheme()
	if err := corev1.AddToScheme(known); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(at.config, ctrl.Options{
		Scheme: known, Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{at.namespace: {}}},
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(&upper{manager.GetClient()}); err != nil {
		return err
	}
	go func() { _ = manager.Start(ctx) }()
	wanted := configMap("word", "quiet")
	wanted.Labels = map[string]string{"upper": "yes"}
	if _, err := at.client.CoreV1().ConfigMaps(at.namespace).Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return err
	}
	is := func(value string) func() (bool, error) {
		return func() (bool, error) {
			secret, err := at.client.CoreV1().Secrets(at.namespace).Get(ctx, "word", metav1.GetOptions{})
			return err == nil && string(secret.Data["k"]) == value, nil
		}
	}
	if err := eventually(ctx, "the secret is made", is("QUIET")); err != nil {
		return err
	}
	if err := at.client.CoreV1().Secrets(at.namespace).Delete(ctx, "word", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "a deleted secret is made again", is("QUIET")); err != nil {
		return err
	}
	if err := at.client.CoreV1().ConfigMaps(at.namespace).Delete(ctx, "word", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the secret goes with its owner", func() (bool, error) {
		list, err := at.client.CoreV1().Secrets(at.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
}
