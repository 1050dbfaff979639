"""What the Python tests share: private servers, fresh databases, the built command line."""
