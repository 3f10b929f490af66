//go:build tools

// Package kubelet names the program of a node. It is a module of its own so that a control plane, which most tests are content
// with, is not built again when this one changes.
package kubelet

import (
	_ "k8s.io/kubernetes/cmd/kubelet"
)
