package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

func template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			SchedulerName: "none",
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: "busybox:1", Command: []string{"sleep", "1"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				}},
			}},
			TerminationGracePeriodSeconds: ptr.To[int64](0),
		},
	}
}

func typedClients(ctx context.Context, at place) error {
	body := template("pod")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: body.Labels}, Spec: body.Spec}
	made, err := at.client.CoreV1().Pods(at.namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	cpu := made.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
	if err := errors.Join(
		expect("the policy", made.Spec.DNSPolicy, corev1.DNSClusterFirst),
		expect("the grace period", *made.Spec.TerminationGracePeriodSeconds, 0),
		expect("the request", cpu.String(), "1500m"),
		expect("the phase", made.Status.Phase, corev1.PodPending),
	); err != nil {
		return err
	}
	// A conflict on purpose, and the way out of it.
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := at.client.CoreV1().Pods(at.namespace).Get(ctx, "pod", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Status.Phase = corev1.PodRunning
		current.Status.PodIP = "10.1.2.3"
		_, err = at.client.CoreV1().Pods(at.namespace).UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"annotations":{"a":"b"}}}`)
	patched, err := at.client.CoreV1().Pods(at.namespace).Patch(ctx, "pod", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if err := errors.Join(expect("the phase", patched.Status.Phase, corev1.PodRunning), expect("the note", patched.Annotations["a"], "b")); err != nil {
		return err
	}
	if err := owners(ctx, at.client, at.namespace); err != nil {
		return err
	}
	if err := at.client.CoreV1().Pods(at.namespace).Delete(ctx, "pod", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := at.client.CoreV1().Pods(at.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return at.client.CoreV1().Namespaces().Delete(ctx, at.namespace, metav1.DeleteOptions{})
}

// owners makes what controllers of the server itself work on.
func owners(ctx context.Context, client *kubernetes.Clientset, ns string) error {
	app := template("app")
	app.Spec.RestartPolicy = corev1.RestartPolicyAlways
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: app.Labels}, Template: app,
	}}
	if _, err := client.AppsV1().Deployments(ns).Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		return err
	}
	// Its controller writes to it, too.
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scale, err := client.AppsV1().Deployments(ns).GetScale(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = 3
		_, err = client.AppsV1().Deployments(ns).UpdateScale(ctx, "app", scale, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := eventually(ctx, "the deployment has 3 pods", func() (bool, error) {
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=app"})
		return err == nil && len(pods.Items) == 3, err
	}); err != nil {
		return err
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: template("job")}}
	made, err := client.BatchV1().Jobs(ns).Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	selector := "batch.kubernetes.io/controller-uid=" + string(made.UID)
	if err := eventually(ctx, "the job has a pod", func() (bool, error) {
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: selector})
		return err == nil && len(pods.Items) == 1, err
	}); err != nil {
		return err
	}
	return errors.Join(
		expect("the back-off limit", *made.Spec.BackoffLimit, 6),
		client.BatchV1().Jobs(ns).Delete(ctx, "job", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}),
		client.AppsV1().Deployments(ns).Delete(ctx, "app", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}),
	)
}

func errorsAreToldApart(ctx context.Context, at place) error {
	maps := at.client.CoreV1().ConfigMaps(at.namespace)
	_, missing := maps.Get(ctx, "nothing", metav1.GetOptions{})
	first, err := maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, exists := maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
	second := first.DeepCopy()
	second.Data["k"] = "2"
	if _, err := maps.Update(ctx, second, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, conflict := maps.Update(ctx, first, metav1.UpdateOptions{FieldManager: "late"})
	_, invalid := maps.Create(ctx, configMap("Not_A_Name", "1"), metav1.CreateOptions{})
	_, tooNew := maps.List(ctx, metav1.ListOptions{ResourceVersion: "999999999999"})
	for _, row := range []struct {
		what string
		is   bool
		err  error
	}{
		{"NotFound", apierrors.IsNotFound(missing), missing},
		{"AlreadyExists", apierrors.IsAlreadyExists(exists), exists},
		{"Conflict", apierrors.IsConflict(conflict), conflict},
		{"Invalid", apierrors.IsInvalid(invalid), invalid},
		{"Timeout", apierrors.IsTimeout(tooNew), tooNew},
	} {
		if !row.is {
			return fmt.Errorf("not %s: %v", row.what, row.err)
		}
	}
	return nil
}
