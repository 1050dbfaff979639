# The front door. Everything is built by meson; see `make help`.
BUILD ?= build
JOBS ?= 2
PREFIX ?= /usr/local

.PHONY: all
all: $(BUILD)/build.ninja
	@ninja -j$(JOBS) -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup --prefix $(PREFIX) $(BUILD)

.PHONY: clean
clean:
	rm -rf build build-*
