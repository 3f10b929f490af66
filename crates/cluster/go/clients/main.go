// Command clients uses an API server as programs in Go do: typed clients in protobuf, informers, dynamic clients,
// server-side apply, leader election, and a controller on controller-runtime. Each check prints one line; any failure
// ends it. What it prints must not depend on the server.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long a condition is waited for. Nothing takes that long unless it is broken.
const patience = 3 * time.Minute

type check struct {
	name string
	run  func(context.Context, place) error
}

var checks = []check{
	{"typed clients speak protobuf", typedClients},
	{"errors are told apart", errorsAreToldApart},
	{"an informer sees every change", informerSeesChanges},
	{"a metadata informer sees metadata", metadataInformer},
	{"a dynamic client handles custom resources", dynamicClient},
	{"an applied configuration has its owner", serverSideApply},
	{"paging visits everything once", paging},
	{"one leader at a time", leaderElection},
	{"events are recorded", events},
	{"discovery and openapi are read", discoveryAndOpenAPI},
	{"a controller reconciles what it owns", controller},
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fail("kubeconfig", err)
	}
	config.QPS, config.Burst = 1000, 1000
	for _, check := range checks {
		at, err := newPlace(ctx, config)
		if err == nil {
			err = check.run(ctx, at)
		}
		if err != nil {
			fail(check.name, err)
		}
		fmt.Println("ok:", check.name)
	}
}

func fail(what string, err error) {
	fmt.Printf("FAILED: %s: %v\n", what, err)
	os.Exit(1)
}
