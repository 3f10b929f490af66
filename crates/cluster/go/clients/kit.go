package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// inProtobuf is a client that sends and accepts protobuf, as controllers configure theirs.
func inProtobuf(config *rest.Config) (*kubernetes.Clientset, error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(config)
}

// place is where a check works: a namespace of its own, and a client for it.
type place struct {
	config    *rest.Config
	client    *kubernetes.Clientset
	namespace string
}

// newPlace makes a new namespace for one check.
func newPlace(ctx context.Context, config *rest.Config) (place, error) {
	client, err := inProtobuf(config)
	if err != nil {
		return place{}, err
	}
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"}}
	made, err := client.CoreV1().Namespaces().Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return place{}, err
	}
	return place{config, client, made.Name}, nil
}

// eventually waits until a condition holds.
func eventually(ctx context.Context, what string, condition func() (bool, error)) error {
	poll := func(context.Context) (bool, error) { return condition() }
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, poll); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
}

func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return nil
}
