//go:build tools

// Package etcd names the one program that is built here, so that go.mod and go.sum pin everything it is built from.
package etcd

import _ "go.etcd.io/etcd/server/v3"
