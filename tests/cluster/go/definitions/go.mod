// Definitions that other projects ship in their modules; nothing is built from them.
module plumbline.test/definitions

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.94.1
)
