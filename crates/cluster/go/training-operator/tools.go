//go:build tools

// Package peer pins the training-operator, whose behaviour is the measure.
package peer

import _ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
