"""What studies measure beside a test loss: of each the function, and the settings of its cells."""
